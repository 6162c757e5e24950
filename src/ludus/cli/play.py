"""`ludus play`: sit down against a trained policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ludus.cli.table import Table
    from ludus.cli.tabular_table import TabularTable
    from ludus.config import RunConfig
    from ludus.games.protocol import Position
    from ludus.records import PolicyRef
    from ludus.storage.run_directory import RunDirectory

HELP = "type a move, ? for the legal moves, q to leave"


def play(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    policy: Annotated[
        str | None, typer.Option(help="Version to play against, such as main@12. Default: the newest.")
    ] = None,
    seat: Annotated[int, typer.Option(help="Your seat, counted from 0; seat 0 moves first.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of chance and of the policy's sampling.")] = 0,
    game: Annotated[str | None, typer.Option(help="Which of the run's games. Default: the first.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Python file that registers the run's game.")] = None,
    sample: Annotated[
        bool,
        typer.Option(help="Sample the policy's moves instead of taking the likeliest. Tabular policies always sample."),
    ] = False,
) -> None:
    """Play against a trained policy in the terminal.

    Example: ludus play runs/connect_four --seat 1
    """
    from ludus.cli.runs import open_run
    from ludus.cli.table import Table
    from ludus.cli.tabular_table import TabularTable
    from ludus.errors import ConfigError
    from ludus.plugins import load_plugins
    from ludus.policies.choosing import choose_policy

    load_plugins(plugin or [])
    directory, config = open_run(run)
    keys = [choice.key for choice in config.games]
    if not keys:
        raise ConfigError(f"{run} has no games; ludus inspect {run} shows its attempts at tasks")
    key = game or keys[0]
    if key not in keys:
        raise ConfigError(f"{run} does not play {key}; it plays: {', '.join(keys)}")
    ref = choose_policy(directory, config, policy)
    if config.policy.model is not None:
        talk(directory, config, key, ref, seat=seat, seed=seed, greedy=not sample)
        return
    table: Table | TabularTable = (
        TabularTable(directory, key, ref, seed=seed)
        if config.population is not None and config.population.oracle == "exact"
        else Table(directory, key, ref, seed=seed, greedy=not sample)
    )
    if not 0 <= seat < table.players:
        raise ConfigError(f"--seat {seat}: {key} has seats 0 to {table.players - 1}")
    typer.echo(f"You are seat {seat} of {table.players} against {ref} at {key}; {HELP}.")
    returns = converse(table, seat)
    if returns is None:
        typer.echo("Left the game.")
        return
    typer.echo(table.position.text())
    typer.echo(outcome(returns, seat, together=table.is_cooperative))


def talk(
    directory: RunDirectory, config: RunConfig, key: str, ref: PolicyRef, *, seat: int, seed: int, greedy: bool
) -> None:
    """Play one game of words against a language model."""
    from ludus.cli.play_text import play_in_words
    from ludus.errors import ConfigError
    from ludus.games.text_registry import make_text_game

    players = make_text_game(key).spec.players
    if not 0 <= seat < players:
        raise ConfigError(f"--seat {seat}: {key} has seats 0 to {players - 1}")
    typer.echo(f"You are seat {seat} of {players} against {ref} at {key}; {HELP}.")
    episode = play_in_words(directory, config, key, ref, seat=seat, seed=seed, greedy=greedy)
    if episode.error:
        typer.echo("Left the game." if episode.error.startswith("Left") else f"The game failed: {episode.error}")
        return
    for place, reply, accepted in zip(episode.move_seats, episode.replies, episode.move_actions, strict=True):
        if not accepted:
            typer.echo(f"seat {place} said {reply!r}, which is no legal move, and forfeits.")
    typer.echo(outcome(list(episode.returns), seat))


def converse(table: Table | TabularTable, seat: int) -> list[float] | None:
    """Play one game; None when the person leaves."""
    position: Position = table.position
    while acting := position.acting():
        moves: dict[int, int] = {}
        for mover in acting:
            if mover == seat:
                typer.echo(position.text(seat))
                chosen = ask(position, seat)
                if chosen is None:
                    return None
                moves[mover] = chosen
            else:
                moves[mover] = table.decide(mover)
        for mover, action in moves.items():
            if mover != seat:
                typer.echo(f"seat {mover} plays {position.action_text(mover, action)}")
        position.act(moves)
    return [float(value) for value in position.returns()]


def ask(position: Position, seat: int) -> int | None:
    """Ask for a legal move until there is one; None for leaving."""
    legal = list(position.legal(seat))
    names = {action: position.action_text(seat, action) for action in legal}
    while True:
        try:
            text = input("your move> ").strip()
        except EOFError:
            return None
        if text.lower() in ("q", "quit", "exit"):
            return None
        if text == "?":
            typer.echo("legal moves: " + ", ".join(f"{action} ({name})" for action, name in names.items()))
            continue
        chosen = understand(text, names)
        if chosen is not None:
            return chosen
        typer.echo(f"{text[:40]!r} is not a legal move here; {HELP}")


def understand(text: str, names: dict[int, str]) -> int | None:
    """Read a move: its name as the game writes it, its number, or an unambiguous part of its name."""
    if text in names.values():
        return next(action for action, name in names.items() if name == text)
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) in names:
        return int(text)
    matching = [action for action, name in names.items() if text and text.lower() in name.lower()]
    return matching[0] if len(matching) == 1 else None


def outcome(returns: list[float], seat: int, *, together: bool = False) -> str:
    """How it went, in words; `together`: nobody played against anybody."""
    if together or len(returns) == 1:
        return f"Your return: {returns[seat]:g}."
    best = max(returns)
    if all(value == best for value in returns):
        return "A draw."
    return "You won." if returns[seat] == best else "You lost."
