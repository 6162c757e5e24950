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

from ludus.cli.arguments import AsJson, GameKey, GamePlugins, Run, SearchNodes, check_search, open_run
from ludus.errors import ConfigError
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from ludus.config import RunConfig
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
        bool | None,
        typer.Option(
            "--greedy/--sample",
            help="Play the likeliest move, or sample as in training (default; with --record: as in evaluations).",
        ),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Count the games in the run's ladder and payoff table.")
    ] = False,
    nodes: SearchNodes = 1,
    game: GameKey = None,
    plugin: GamePlugins = None,
    moves_only: Annotated[bool, typer.Option("--moves", help="Show moves without the positions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play two members of a run against each other, and show score and games.

    The run is not changed. With --record the games are kept in RUN/recorded.sqlite and count for `ludus league`, each
    once; training, opponents and TrueSkill never depend on them.

    \b
    Examples:
      ludus match runs/connect_four latest mcts-25 --games 200 --show 1
      ludus match runs/connect_four latest minimax-3 --games 200 --record
    """
    from ludus.runtime import limit_threads

    load_plugins(plugin or [])
    directory, config = open_run(run)
    if config.policy.model is None:
        limit_threads(1, os.environ)  # before anything loads JAX
    from ludus.cli.league_games import Recorder
    from ludus.cli.match_games import Table, evaluates_greedily, play_match
    from ludus.reports.match_report import expected_score, make_report

    table = Table(directory, config, game)
    check_search(table.game, nodes)
    sides = table.find(a), table.find(b)
    labels, rated_greedy = (sides[0].label, sides[1].label), evaluates_greedily(table, sides)
    if record:
        check_recordable(config, labels, greedy=greedy, rated_greedy=rated_greedy, nodes=nodes)
    greedy = (record and rated_greedy) if greedy is None else greedy
    expected = None  # ratings are of play by policy alone
    if nodes == 1:
        expected = expected_score(directory, config, sides[0].ref, sides[1].ref)  # before these games count
    with following(games) as tell_count:
        recorder = Recorder(directory.recorded if record else None, lambda _: labels, tell_count)
        episodes = play_match(table, sides, games=games, seed=seed, greedy=greedy, advance=recorder, nodes=nodes)
    report = make_report(episodes, sides=labels, expected=expected, rated_greedy=rated_greedy)
    sound = [episode for episode in episodes if not episode.error]
    shown = [shown_game(episode, report, moves_only=moves_only or as_json) for episode in sound[:show]]
    if as_json:
        facts = {"run": str(directory.path), "seed": seed, "greedy": greedy, "nodes": nodes}
        kept = {"recorded": recorder.new} if record else {}
        typer.echo(json.dumps({**facts, **report.to_json(), **kept, "shown": shown}))
        return
    tell(report, shown, greedy=greedy)
    if record:
        known = len(sound) - recorder.new
        again = f"; {known:,} were there already (another --seed plays others)" if known else ""
        typer.echo(f"recorded {recorder.new:,} games in {directory.recorded}{again}")


def check_recordable(
    config: RunConfig, labels: tuple[str, str], *, greedy: bool | None, rated_greedy: bool, nodes: int
) -> None:
    """Refuse games that would not mean the same as those in the table."""
    if config.population is not None:
        raise ConfigError("--record: a population's table is its own; it plays the games it needs itself")
    if labels[0] == labels[1]:
        raise ConfigError(f"--record: games of {labels[0]} against itself say nothing about ratings")
    if nodes > 1:
        raise ConfigError("--record: the run's own games are by policy alone; leave out --nodes")
    if greedy is not None and greedy != rated_greedy:
        way, flag = ("the likeliest moves", "--sample") if rated_greedy else ("sampled moves", "--greedy")
        raise ConfigError(f"--record: the run's own games between these two have {way}; leave out {flag}")


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
