"""`ludus match`: games between any two members of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ludus.records import Episode
    from ludus.reports.match_report import Report


def match(
    run: Annotated[Path, typer.Argument(help="Directory of the run, live or finished.")],
    a: Annotated[str, typer.Argument(help="First player: main@12, 12, latest, or a fixed player such as mcts-25.")],
    b: Annotated[str, typer.Argument(help="Second player, written the same way.")],
    games: Annotated[int, typer.Option(min=1, max=1_000_000, help="Games to play; seats alternate.")] = 100,
    show: Annotated[int, typer.Option(min=0, help="Print so many of the games, move by move.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of chance and sampling.")] = 0,
    greedy: Annotated[
        bool, typer.Option("--greedy/--sample", help="Play the likeliest move, or sample as in training.")
    ] = False,
    game: Annotated[str | None, typer.Option(help="Which of the run's games. Default: the first.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Python file that registers the run's game.")] = None,
    moves_only: Annotated[bool, typer.Option("--moves", help="Show moves without the positions.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play two members of a run against each other, and show score and games. The run is not changed.

    Example: ludus match runs/connect_four latest mcts-25 --games 200 --show 1
    """
    import os

    from ludus.cli.match_members import Table
    from ludus.cli.match_progress import following
    from ludus.cli.runs import open_run
    from ludus.plugins import load_plugins
    from ludus.runtime import limit_threads

    load_plugins(plugin or [])
    directory, config = open_run(run)
    if config.policy.model is None:
        limit_threads(1, os.environ)  # before anything loads JAX
    from ludus.cli.match_games import play_match
    from ludus.reports.match_report import expected_score, make_report

    table = Table(directory, config, game)
    sides = table.find(a), table.find(b)
    with following(games) as advance:
        episodes = play_match(table, sides, games=games, seed=seed, greedy=greedy, advance=advance)
    expected = expected_score(directory, config, sides[0].ref, sides[1].ref)
    # Versions of one policy sample against each other in evaluation games.
    rated_greedy = config.evaluate.greedy and sides[0].ref.name != sides[1].ref.name
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
    from ludus.cli.match_games import seats_of_first
    from ludus.games.episode_text import move_lines

    first = seats_of_first(episode)
    return {
        "seats": [report.first if seat in first else report.second for seat in range(len(episode.returns))],
        "moves": list(move_lines(episode, moves_only=moves_only)),
        "returns": list(episode.returns),
    }
