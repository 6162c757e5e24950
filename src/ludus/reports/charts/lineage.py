"""Who began with whose weights: a lane for each agent, generations from left to right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.league.matchmaking.roster import Recruit
from ludus.reports.charts.canvas import COLOURS, hide_frame, leave_empty, new_figure, set_title
from ludus.reports.population_standing import PopulationStanding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LANE, _GENERATION, _WIDEST = 0.62, 0.42, 14.0
_NAMED_UP_TO = 34
"""Generations up to which there is room for a version below every mark."""


def lineage_figure(standing: PopulationStanding, title: str) -> Figure:
    """Filled marks are members for good, hollow ones were learners in passing; lines lead from parent to child."""
    if not standing.lineage:
        return leave_empty(new_figure(6.0, 2.4), title, "nobody has joined yet")
    generations = max(standing.generation, max(recruit.generation for recruit in standing.lineage))
    width = min(max(_GENERATION * generations, 4.2), _WIDEST)
    figure = new_figure(width + 0.085 * max(map(len, standing.agents)) + 0.6, 1.5 + _LANE * len(standing.agents))
    axes = figure.subplots()
    lanes = {agent: lane for lane, agent in enumerate(standing.agents)}
    places = {recruit.ref: (recruit.generation, lanes[recruit.agent]) for recruit in standing.lineage}
    size = 8.0 if generations <= _NAMED_UP_TO else max(2.0, 8.0 * _NAMED_UP_TO / generations)
    for recruit in standing.lineage:
        if recruit.parent in places:
            _draw_descent(axes, places[recruit.parent], places[recruit.ref], _colour(lanes[recruit.agent]))
        _draw_mark(axes, recruit, lanes[recruit.agent], size)
    _name_versions(axes, standing, lanes, generations)
    _label(axes, standing, generations)
    set_title(axes, title, "lines: began with the weights of; filled: belongs for good, hollow: in passing")
    return figure


def _colour(lane: int) -> str:
    return COLOURS[lane % len(COLOURS)]


def _draw_mark(axes: Axes, recruit: Recruit, lane: int, size: float) -> None:
    face = _colour(lane) if recruit.frozen else "white"
    axes.plot(
        recruit.generation, lane, "o", color=_colour(lane), markerfacecolor=face, markersize=size, zorder=3, lw=0
    )  # fmt: skip


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


def _name_versions(axes: Axes, standing: PopulationStanding, lanes: dict[str, int], generations: int) -> None:
    every = 1 if generations <= _NAMED_UP_TO else -(-generations // _NAMED_UP_TO)
    for recruit in standing.lineage:
        if recruit.generation % every == 0:
            axes.annotate(
                f"{recruit.ref.version}", (recruit.generation, lanes[recruit.agent]), xytext=(0, -9),
                textcoords="offset points", ha="center", va="center", fontsize=7,
            )  # fmt: skip


def _label(axes: Axes, standing: PopulationStanding, generations: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_yticks(range(len(standing.agents)), standing.agents, fontsize=9)
    axes.set_ylim(len(standing.agents) - 0.35, -0.65)
    axes.set_xlim(0.4, max(generations, 2) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("generation (small: version of the agent)")
    axes.grid(axis="x", color="#eeeeee", lw=0.8)
    hide_frame(axes)
