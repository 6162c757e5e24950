"""`ludus league` of a population, computed or learnt: one standing, printed, drawn or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from ludus.reports.population_standing import PopulationStanding

SPARKS = 40


def show_population(standing: PopulationStanding, name: str, folder: Path, *, as_json: bool) -> None:
    """Print everything, and draw it."""
    from ludus.cli.league import name_pictures
    from ludus.reports.charts import save_pictures

    pictures = save_pictures(folder, figures(standing, name))
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
    from ludus.reports.lineage_text import HEADLINE, lineage_lines
    from ludus.reports.population_tables import ladder_table, meta_strategy_table, payoff_table

    console.print(ladder_table(standing))
    payoffs = payoff_table(standing)
    if payoffs is not None:
        console.print(payoffs)
    else:
        _say(console, f"{standing.players} players: pairs make no table of payoffs; see the column payoff above")
        _say(console, "")
    if standing.history:
        console.print(meta_strategy_table(standing))
    if standing.lineage:
        _say(console, HEADLINE)
        for line in lineage_lines(standing, console.width):
            _say(console, line)
        _say(console, "")
    for line in closing_lines(standing):
        _say(console, line)


def closing_lines(standing: PopulationStanding) -> list[str]:
    """The curve of exploitability, and what it all comes to."""
    from ludus.reports.sparklines import decades, sparkline

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


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)
