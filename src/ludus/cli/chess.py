"""`ludus chess`: games to learn from, training chunks, networks as engines. A line in `COMMANDS` adds a command."""

from __future__ import annotations

from importlib import import_module

import typer

COMMANDS = {
    "init": ("chess_training", "init"),
    "train": ("chess_training", "train"),
    "eval": ("chess_measure", "evaluate"),
    "describe": ("chess_networks", "describe"),
    "convert": ("chess_networks", "convert"),
    "migrate": ("chess_networks", "migrate"),
    "overfit": ("chess_measure", "overfit"),
    "tune-lr": ("chess_measure", "tune_lr"),
    "play-engine": ("chess_games", "play_engine"),
    "selfplay": ("chess_selfplay", "selfplay"),
    "uci": ("chess_uci", "uci"),
}
"""Each command, in the order of the help: the module beside this one, and its function."""
CHUNKS = ("from_pgn", "dump", "stats", "check")

app = typer.Typer(
    help="Chess at volume: games to learn from, chunks, networks, engines.\n\n"
    "Example: ludus chess play-engine stockfish --games 100 --out chunks",
    no_args_is_help=True,
    rich_markup_mode=None,
)
chunks = typer.Typer(
    help="Make training chunks, and look at them.\n\nExample: ludus chess chunks check chunks",
    no_args_is_help=True,
    rich_markup_mode=None,
)

for command, (home, name) in COMMANDS.items():
    app.command(name=command)(getattr(import_module(f"ludus.cli.{home}"), name))
for name in CHUNKS:
    chunks.command(name=name.replace("_", "-"))(getattr(import_module("ludus.cli.chess_chunks"), name))
app.add_typer(chunks, name="chunks")
