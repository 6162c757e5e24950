"""Who was played how often, generation by generation: a heat map for each population."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ludus.reports.charts.canvas import leave_empty, new_figure, set_title
from ludus.reports.charts.heat_map import HeatMap, draw_heat_map, room_for_names
from ludus.reports.population_standing import PopulationStanding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40
MOST_LABELS = 25
"""Generations that are named below."""
_ROW, _COLUMN = 0.24, 0.28
_WIDEST = 11.0
_PALEST = -0.2
"""Where the colours begin, as a part of the largest share, so that the smallest is not white."""
_WRITTEN_UP_TO = 14
"""Generations up to which there is room for numbers."""


def meta_strategy_figure(standing: PopulationStanding, title: str) -> Figure:
    """Rows are policies in the order they joined, columns generations; those never played are left out."""
    if not standing.history:
        return leave_empty(new_figure(6.0, 2.4), title, "not solved yet")
    played = [_played(standing, population) for population in range(len(standing.populations))]
    columns = len(standing.history)
    column = 0.42 if columns <= _WRITTEN_UP_TO else _COLUMN
    width = min(max(column * columns, 2.4), _WIDEST)
    heights = [max(_ROW * len(names), 0.5) for names in played]
    figure = new_figure(width + max(map(room_for_names, played)) + 1.6, sum(heights) + 1.0 * len(heights) + 0.6)
    all_axes = figure.subplots(len(played), squeeze=False, height_ratios=heights)[:, 0]
    for population, axes in enumerate(all_axes):
        _draw(axes, standing, population, played[population])
        part = "" if standing.shared else f", seat {population}"
        set_title(axes, f"{title}{part}", _note(standing, population, len(played[population])))
    all_axes[-1].set_xlabel("generation")
    return figure


def _draw(axes: Axes, standing: PopulationStanding, population: int, names: list[str]) -> None:
    shares = np.array([[each.populations[population].get(name, 0.0) for each in standing.history] for name in names])
    generations = [each.generation for each in standing.history]
    most = float(shares.max())
    is_written = len(generations) <= _WRITTEN_UP_TO
    every = -(-len(generations) // MOST_LABELS)
    heat_map = HeatMap(
        values=np.where(shares > 0, shares, np.nan),
        rows=names,
        columns=[f"{number}" if place % every == 0 else "" for place, number in enumerate(generations)],
        lowest=_PALEST * most,
        highest=most,
        shades="Blues",
        nothing="white",
        words=(lambda row, column: (f"{100 * shares[row, column]:.0f}",)) if is_written else None,
        square=False,
    )
    picture = draw_heat_map(axes, heat_map)
    bar = axes.figure.colorbar(picture, ax=axes, pad=0.02, fraction=0.05, aspect=12)
    bar.set_ticks([0.0, most / 2, most], labels=["0 %", f"{most / 2:.0%}", f"{most:.0%}"], fontsize=8)
    bar.ax.set_ylim(0.0, most)
    bar.outline.set_visible(False)
    axes.spines[:].set(visible=True, color="#dddddd")


def _played(standing: PopulationStanding, population: int) -> list[str]:
    """Policies that were ever played, in joining order; the most important ones if they are too many."""
    total: dict[str, float] = {}
    for each in standing.history:
        for name, share in each.populations[population].items():
            total[name] = total.get(name, 0.0) + share
    names = [name for name in standing.populations[population] if name in total]
    kept = set(sorted(names, key=lambda name: (-standing.share(population, name), -total[name]))[:MOST_ROWS])
    return [name for name in names if name in kept]


def _note(standing: PopulationStanding, population: int, shown: int) -> str:
    ever = {name for each in standing.history for name in each.populations[population]}
    never = len(standing.populations[population]) - len(ever)
    gaps = len(standing.history) <= standing.generation
    parts = [
        *([f"{len(ever) - shown} that were played less are not shown"] if len(ever) > shown else []),
        *([f"{never} never played"] if never > 0 and not gaps else []),
        *(["of the generations whose versions are kept"] if gaps else []),
    ]
    return "; ".join(parts)
