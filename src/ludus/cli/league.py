"""`ludus league`: the ladder and the payoffs of a run, finished or alive; the standing of a population."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.arguments import AsJson, GameKey, GamePlugins, Run, open_run
from ludus.errors import ConfigError
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from ludus.cli.league_games import Played
    from ludus.config import RunConfig
    from ludus.reports.population_standing import PopulationStanding
    from ludus.storage.run_directory import RunDirectory

SPARKS = 40


def league(
    run: Run,
    png: Annotated[
        Path | None, typer.Option(help="Folder for the pictures. Default: RUN/league; with --json: none are drawn.")
    ] = None,
    play: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="First play so many games, where the table is least certain.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="With --play: seed of chance and sampling.")] = 0,
    game: GameKey = None,
    plugin: GamePlugins = None,
    as_json: AsJson = False,
) -> None:
    """Show ratings and the payoff matrix, and draw both as PNG and SVG.

    Ratings are Elo from one fit of all games, with 95 % intervals; TrueSkill, which matchmaking uses, is beside them.
    --play N plays the N games that reduce the uncertainty of the table most, as evaluations do, and keeps them in
    RUN/recorded.sqlite; training, opponents and TrueSkill never depend on them.

    Of a population, computed or learnt, also: the meta-strategy over the generations, exploitability, and who began
    with whose weights.

    \b
    Examples:
      ludus league runs/connect_four
      ludus league runs/connect_four --play 1000
    """
    load_plugins(plugin or [])
    directory, config = open_run(run)
    folder = png or (None if as_json else directory.path / "league")
    if config.population is not None:
        if play:
            raise ConfigError("--play: a population plays the games that its table needs itself")
        from ludus.runs.population.standing import standing_of_population

        show_population(standing_of_population(directory, config), config.name, folder, as_json=as_json)
        return
    played = play_games(directory, config, play, seed=seed, game=game) if play else None
    show_league(directory, config.name, folder, played, as_json=as_json)


def play_games(run: RunDirectory, config: RunConfig, count: int, *, seed: int, game: str | None) -> Played:
    """Play and record the most telling games."""
    from ludus.runtime import limit_threads

    if config.policy.model is None:
        limit_threads(1, os.environ)  # before anything loads JAX
    from ludus.cli.league_games import play_most_telling
    from ludus.cli.match import following
    from ludus.cli.match_games import Table

    with following(count) as tell:
        return play_most_telling(Table(run, config, game), count, seed=seed, tell=tell)


def show_league(run: RunDirectory, name: str, folder: Path | None, played: Played | None, *, as_json: bool) -> None:
    """Draw both tables into the folder, if there is one, and print them."""
    from ludus.reports.ladder import standing_of_run
    from ludus.storage.catalog import Catalog

    with Catalog.open_readonly(run.catalog) as catalog:
        standing = standing_of_run(catalog)
    pictures: list[Path] = []
    if folder is not None:
        from ludus.reports.charts import ladder_figure, save_pictures, score_figure

        drawn = {"ladder": ladder_figure(standing, f"{name}: ladder")}
        pictures = save_pictures(folder, {**drawn, "payoffs": score_figure(standing, f"{name}: payoffs")})
    if as_json:
        news = {} if played is None else {"played": played.to_json()}
        typer.echo(json.dumps({**standing.to_json(), **news, "pictures": [str(path) for path in pictures]}))
        return
    from rich.console import Console

    from ludus.reports.tables import ladder_table, payoff_table

    console = Console()
    console.print(ladder_table(standing))
    console.print(payoff_table(standing))
    for line in [] if played is None else played.notes(run.recorded):
        console.print(line, highlight=False, soft_wrap=True)
    console.print(name_pictures(pictures), highlight=False, soft_wrap=True)


def name_pictures(pictures: list[Path]) -> str:
    """Where the pictures are, each named once for all of its forms."""
    names = dict.fromkeys(path.stem for path in pictures)
    forms = dict.fromkeys(path.suffix for path in pictures)
    return f"pictures: {pictures[0].parent}: {', '.join(names)} ({' and '.join(forms)})"


def show_population(standing: PopulationStanding, name: str, folder: Path | None, *, as_json: bool) -> None:
    """Print everything, and draw it into the folder, if there is one."""
    from ludus.reports.charts import save_pictures

    pictures = [] if folder is None else save_pictures(folder, figures(standing, name))
    if as_json:
        typer.echo(json.dumps({**standing.to_json(), "pictures": [str(path) for path in pictures]}, allow_nan=False))
        return
    from rich.console import Console

    console = Console()
    print_standing(console, standing)
    console.print(name_pictures(pictures), highlight=False, soft_wrap=True)


def figures(standing: PopulationStanding, name: str) -> dict[str, Figure]:
    """The pictures that this population has something for, by the name of their file."""
    from ludus.reports import charts

    drawn = {
        "payoffs": charts.payoff_figure(standing, f"{name}: payoffs"),
        "meta_strategy": charts.meta_strategy_figure(standing, f"{name}: meta-strategy, % of the games"),
        standing.exploitability.metric.rpartition("/")[2]: charts.exploitability_figure(standing, name),
    }
    if standing.is_rated:
        drawn["ladder"] = charts.population_ladder_figure(standing, f"{name}: ladder")
    if standing.lineage:
        drawn["lineage"] = charts.lineage_figure(standing, f"{name}: lineage")
    return drawn


def print_standing(console: Console, standing: PopulationStanding) -> None:
    """Tables, bars, the curve and the lineage."""
    from ludus.cli.summary import say
    from ludus.reports.lineage_text import HEADLINE, lineage_lines
    from ludus.reports.tables import meta_strategy_table, population_ladder_table, population_payoff_table

    console.print(population_ladder_table(standing))
    payoffs = population_payoff_table(standing)
    if payoffs is not None:
        console.print(payoffs)
    else:
        say(console, f"{standing.players} players: pairs make no table of payoffs; see the column payoff above")
        say(console, "")
    if standing.history:
        console.print(meta_strategy_table(standing))
    if standing.lineage:
        say(console, HEADLINE)
        for line in lineage_lines(standing, console.width):
            say(console, line)
        say(console, "")
    for line in closing_lines(standing):
        say(console, line)


def closing_lines(standing: PopulationStanding) -> list[str]:
    """The curve of exploitability, and what it all comes to."""
    from ludus.reports.number_text import decades, sparkline

    lines, found = [], standing.exploitability
    if found.values:
        thinned = found.values[:: -(-len(found.values) // SPARKS)]
        shown = sparkline(decades(thinned), 0.0, 1.0)
        lines.append(f"{found.label}: {found.values[0]:.4g} {shown} {found.values[-1]:.4g}")
    if not standing.shared:
        values = ", ".join(f"{value:.6g}" for value in standing.values[1:])
        lines.append(f"generation {standing.generation:,}, value of seat 0: {standing.values[0]:.6g}; others: {values}")
    else:
        lines.append(f"generation {standing.generation:,}")
    if standing.relative_performance is not None:
        gain = standing.relative_performance
        lines.append(f"second half of the generations against the first: {gain:+.3g} (relative performance)")
    return lines
