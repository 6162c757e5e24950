"""How a population came to be, generation by generation: its exploitability, its meta-strategies, and its lineage."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ludus.reports.charts.canvas import (
    COLOURS,
    HeatMap,
    draw_heat_map,
    hide_frame,
    leave_empty,
    new_figure,
    room_for_names,
    set_title,
)
from ludus.reports.population_standing import EXACT, PopulationStanding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEW = 300.0
ROUNDING = 1e-13
"""Of the largest value: less is 0."""
_MARKED_UP_TO = 60
"""Generations that get a mark each."""
MOST_ROWS = 40
MOST_LABELS = 25
"""Generations that are named below."""
_ROW, _COLUMN = 0.24, 0.28
_WIDEST = 11.0
_PALEST = -0.2
"""Where the colours begin, as a part of the largest share, so that the smallest is not white."""
_WRITTEN_UP_TO = 14
"""Generations up to which there is room for numbers."""
_AGENT, _LINEAGE_STEP, _WIDEST_LINEAGE = 0.62, 0.42, 14.0
_NAMED_UP_TO = 34
"""Generations up to which there is room for a version below every mark."""


def exploitability_figure(standing: PopulationStanding, title: str) -> Figure:
    """The curve; values of 0, which a logarithmic axis does not have, are hollow marks on its lower edge."""
    found = standing.exploitability
    figure = new_figure(7.2, 3.6)
    if not found.values:
        return leave_empty(figure, title, "not measured yet")
    axes = figure.subplots()
    highest = max(found.values)
    positive = [value for value in found.values if value > ROUNDING * highest]
    floor = min(positive) / 3 if positive else 1.0
    shown = [value if value > ROUNDING * highest else floor for value in found.values]
    colour = COLOURS[0] if found.metric == EXACT else COLOURS[1]
    marker = "o" if len(shown) <= _MARKED_UP_TO else ""
    axes.plot(found.generations, shown, color=colour, lw=1.5, marker=marker, markersize=4)
    if positive:
        _scale(axes, min(shown), highest)
    zeros = [place for place, value in zip(found.generations, shown, strict=True) if value == floor]
    if zeros:
        at = [floor] * len(zeros)
        axes.plot(zeros, at, "v", color="black", markerfacecolor="white", markersize=6, label="is 0")
        axes.legend(frameon=False, fontsize=8.5)
    axes.set_ylabel(found.label)
    axes.grid(color="#dddddd", lw=0.8)
    _label_generations(axes, -0.5, max(standing.generation, 1) + 0.5, "generation")
    set_title(axes, f"{title}: {found.label} {found.values[-1]:.4g} after generation {found.generations[-1]:,}")
    return figure


def _scale(axes: Axes, lowest: float, highest: float) -> None:
    """Powers of ten; where there are few of them, also what is between."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    few = highest / lowest < _FEW
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(lowest / 1.3, highest * 1.3)


def _label_generations(axes: Axes, first: float, last: float, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(first, last)
    axes.set_xlabel(label)
    hide_frame(axes)


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
    total: Counter[str] = Counter()
    for each in standing.history:
        total.update(each.populations[population])
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


def lineage_figure(standing: PopulationStanding, title: str) -> Figure:
    """Filled marks are members for good, hollow ones were learners in passing; lines lead from parent to child."""
    if not standing.lineage:
        return leave_empty(new_figure(6.0, 2.4), title, "nobody has joined yet")
    generations = max(standing.generation, max(recruit.generation for recruit in standing.lineage))
    width = min(max(_LINEAGE_STEP * generations, 4.2), _WIDEST_LINEAGE)
    figure = new_figure(width + 0.085 * max(map(len, standing.agents)) + 0.6, 1.5 + _AGENT * len(standing.agents))
    axes = figure.subplots()
    rows = {agent: row for row, agent in enumerate(standing.agents)}
    places = {recruit.ref: (recruit.generation, rows[recruit.agent]) for recruit in standing.lineage}
    every = 1 if generations <= _NAMED_UP_TO else -(-generations // _NAMED_UP_TO)
    size = 8.0 if generations <= _NAMED_UP_TO else max(2.0, 8.0 * _NAMED_UP_TO / generations)
    for recruit in standing.lineage:
        at, colour = places[recruit.ref], COLOURS[rows[recruit.agent] % len(COLOURS)]
        if recruit.parent in places:
            _draw_descent(axes, places[recruit.parent], at, colour)
        face = colour if recruit.frozen else "white"
        axes.plot(*at, "o", color=colour, markerfacecolor=face, markersize=size, zorder=3, lw=0)
        if recruit.generation % every == 0:
            axes.annotate(
                f"{recruit.ref.version}", at, xytext=(0, -9), textcoords="offset points", ha="center", va="center",
                fontsize=7,
            )  # fmt: skip
    axes.set_yticks(range(len(standing.agents)), standing.agents, fontsize=9)
    axes.set_ylim(len(standing.agents) - 0.35, -0.65)
    axes.grid(axis="x", color="#eeeeee", lw=0.8)
    _label_generations(axes, 0.4, max(generations, 2) + 0.6, "generation (small: version of the agent)")
    set_title(axes, title, "lines: began with the weights of; filled: belongs for good, hollow: in passing")
    return figure


def _draw_descent(axes: Axes, parent: tuple[int, int], child: tuple[int, int], colour: str) -> None:
    """Straight from one generation to the next, and bowed over those between."""
    is_next = child[1] != parent[1] or child[0] - parent[0] <= 1
    bow = 0.0 if is_next else -min(0.35, 1.2 / (child[0] - parent[0]))
    line = axes.annotate(
        "", child, parent, zorder=2,
        arrowprops={"arrowstyle": "-", "color": colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 0,
                    "connectionstyle": f"arc3,rad={bow}"},
    )  # fmt: skip
    line.set_in_layout(False)
