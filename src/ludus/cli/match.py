"""`ludus match`: games between any two members of a run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.arguments import AsJson, GameKey, GamePlugins, Run, open_run
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from ludus.records import Episode
    from ludus.reports.match_report import Report

PLAIN_EVERY_S = 5.0
"""Seconds between lines of progress, where there is no terminal."""


def match(
    run: Run,
    a: Annotated[str, typer.Argument(help="First player: main@12, 12, latest, or a fixed player such as mcts-25.")],
    b: Annotated[str, typer.Argument(help="Second player, written the same way.")],
    games: Annotated[int, typer.Option(min=1, max=1_000_000, help="Games to play; seats alternate.")] = 100,
    show: Annotated[int, typer.Option(min=0, help="Print so many of the games, move by move.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of chance and sampling.")] = 0,
    greedy: Annotated[
        bool, typer.Option("--greedy/--sample", help="Play the likeliest move, or sample as in training.")
    ] = False,
    game: GameKey = None,
    plugin: GamePlugins = None,
    moves_only: Annotated[bool, typer.Option("--moves", help="Show moves without the positions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play two members of a run against each other, and show score and games. The run is not changed.

    Example: ludus match runs/connect_four latest mcts-25 --games 200 --show 1
    """
    from ludus.runtime import limit_threads

    load_plugins(plugin or [])
    directory, config = open_run(run)
    if config.policy.model is None:
        limit_threads(1, os.environ)  # before anything loads JAX
    from ludus.cli.match_games import Table, play_match
    from ludus.reports.match_report import expected_score, make_report

    table = Table(directory, config, game)
    sides = table.find(a), table.find(b)
    with following(games) as advance:
        episodes = play_match(table, sides, games=games, seed=seed, greedy=greedy, advance=advance)
    expected = expected_score(directory, config, sides[0].ref, sides[1].ref)
    # Versions of one policy sample against each other in evaluation games.
    rated_greedy = config.evaluate.greedy is not False and sides[0].ref.name != sides[1].ref.name
    labels = sides[0].label, sides[1].label
    report = make_report(episodes, sides=labels, expected=expected, rated_greedy=rated_greedy)
    sound = [episode for episode in episodes if not episode.error]
    shown = [shown_game(episode, report, moves_only=moves_only or as_json) for episode in sound[:show]]
    if as_json:
        facts = {"run": str(directory.path), "seed": seed, "greedy": greedy}
        typer.echo(json.dumps({**facts, **report.to_json(), "shown": shown}))
        return
    tell(report, shown, greedy=greedy)


def tell(report: Report, shown: Sequence[Mapping[str, Any]], *, greedy: bool) -> None:
    """Print the games that are to be shown, then the score."""
    from rich.console import Console

    from ludus.reports.match_report import report_table

    for number, game in enumerate(shown, start=1):
        seats = ", ".join(f"seat {seat}: {who}" for seat, who in enumerate(game["seats"]))
        typer.echo(f"game {number}  {report.game}  {seats}")
        for line in game["moves"]:
            typer.echo(line)
        typer.echo("returns: " + ", ".join(f"seat {seat}: {value:g}" for seat, value in enumerate(game["returns"])))
        typer.echo("")
    console = Console()
    console.print(report_table(report))
    for note in report.notes(greedy=greedy):
        console.print(note, highlight=False, soft_wrap=True)


def shown_game(episode: Episode, report: Report, *, moves_only: bool) -> dict[str, Any]:
    """One game for people and programs: who sat where, what happened, what each got."""
    from ludus.games.episode_text import move_lines
    from ludus.reports.match_report import seats_of_first

    first = seats_of_first(episode)
    return {
        "seats": [report.first if seat in first else report.second for seat in range(len(episode.returns))],
        "moves": list(move_lines(episode, moves_only=moves_only)),
        "returns": list(episode.returns),
    }


@contextmanager
def following(games: int) -> Iterator[Callable[[int], None]]:
    """Show how far a match is, on stderr: gives a function that is told how many games are over."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainProgress(games)
        return
    columns = (TextColumn("playing"), BarColumn(), MofNCompleteColumn(), TextColumn("games"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("playing", total=games)
        yield lambda done: progress.update(task, completed=done)


class PlainProgress:
    """A line every few seconds; nothing for a match that is over sooner."""

    def __init__(self, games: int) -> None:
        self._games = games
        self._last = time.monotonic()

    def __call__(self, done: int) -> None:
        """Say how many games are over, when it is time."""
        if done < self._games and time.monotonic() - self._last >= PLAIN_EVERY_S:
            self._last = time.monotonic()
            print(f"{done:,} of {self._games:,} games", file=sys.stderr, flush=True)
