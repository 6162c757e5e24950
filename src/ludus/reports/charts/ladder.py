"""The ladder as a picture: skill with its uncertainty, and beside it what else is known of each member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from ludus.reports.charts.canvas import FAINT, hide_frame, leave_empty, new_figure, room_for_names, set_title
from ludus.reports.ladder import LadderRow, Standing
from ludus.reports.population_standing import PopulationRow, PopulationStanding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40
_STYLES = {
    "snapshot": ("#0072B2", "o", "version"),
    "fixed": ("#D55E00", "s", "fixed player"),
    "learner": ("#009E73", "D", "learning"),
}
_PLOT = 4.0
"""Width of what is between the names and the columns beside, at least, in inches."""
_COUNTS = ("won–drawn–lost", 80.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One line of the picture."""

    name: str
    kind: str
    filled: bool
    mu: float
    sigma: float
    beside: tuple[str, ...]
    """What is written to the right, one for each column."""


def ladder_figure(standing: Standing, title: str) -> Figure:
    """Skill of each rated member with a bar of two standard deviations to each side, best on top."""
    rungs = [_rung(row) for row in standing.rows if row.rank is not None]
    return _draw(rungs, title, (("score", 36.0), _COUNTS), "retired")


def population_ladder_figure(standing: PopulationStanding, title: str) -> Figure:
    """The same for a population, with Elo, the share in the meta-strategy and alpha-rank's mass."""
    rated = [row for row in standing.rows if row.mu is not None]
    rungs = [_population_rung(place, row) for place, row in enumerate(rated, 1)]
    columns = (("Elo", 62.0), ("share", 42.0), ("α-rank", 46.0), ("payoff", 46.0), _COUNTS)
    return _draw(rungs, title, columns, "in passing")


def _rung(row: LadderRow) -> Rung:
    score = "" if row.score is None else f"{row.score:.0%}"
    return Rung(
        name=f"{row.rank}. {row.policy}",
        kind=row.kind,
        filled=row.active,
        mu=row.mu,
        sigma=row.sigma,
        beside=(score, f"{row.wins}–{row.draws}–{row.losses}"),
    )


def _population_rung(place: int, row: PopulationRow) -> Rung:
    seat = "" if row.seat is None or row.generation else f", seat {row.seat}"
    beside = (
        "" if row.elo is None or row.elo_error is None else f"{row.elo:.0f} ± {row.elo_error:.0f}",
        "" if row.share is None else f"{row.share:.0%}",
        "" if row.alpha_rank is None else f"{row.alpha_rank:.0%}",
        "" if row.payoff is None else f"{round(row.payoff, 2) + 0.0:+.2f}",
        f"{row.wins}–{row.draws}–{row.losses}",
    )
    kind = "snapshot" if row.generation else "fixed"
    return Rung(
        name=f"{place}. {row.policy}{seat}",
        kind=kind,
        filled=row.frozen,
        mu=row.mu or 0.0,
        sigma=row.sigma or 0.0,
        beside=beside,
    )


def _draw(rungs: Sequence[Rung], title: str, columns: Sequence[tuple[str, float]], hollow: str) -> Figure:
    shown = rungs[:MOST_ROWS]
    height = 1.7 + 0.34 * max(len(shown), 2)
    if not shown:
        return leave_empty(new_figure(8.4, height), title, "no rated games yet")
    used = [place for place in range(len(columns)) if any(rung.beside[place] for rung in shown)]
    names, beside = room_for_names([rung.name for rung in shown]), sum(columns[place][1] for place in used) / 72
    figure = new_figure(max(8.4, _PLOT + names + beside), height)
    axes = figure.subplots()
    # Where columns end, in points from the edge of the plot.
    ends = dict(zip(used, accumulate(columns[place][1] for place in used), strict=True))
    for line, rung in enumerate(shown):
        _draw_rung(axes, line, rung)
        for place, end in ends.items():
            _write_beside(axes, end, line, rung.beside[place])
    for place, end in ends.items():
        _write_beside(axes, end, -0.85, columns[place][0], FAINT)
    _label(axes, shown)
    _add_legend(axes, shown, hollow)
    hidden = len(rungs) - len(shown)
    set_title(axes, title, f"best {len(shown)}; {hidden} more not shown" if hidden else "")
    return figure


def _draw_rung(axes: Axes, line: int, rung: Rung) -> None:
    colour, marker, _ = _STYLES[rung.kind]
    face = colour if rung.filled else "white"
    axes.errorbar(
        rung.mu, line, xerr=2 * rung.sigma, fmt=marker, color=colour, markerfacecolor=face, markersize=7, capsize=3,
        lw=1.6,
    )  # fmt: skip


def _label(axes: Axes, shown: Sequence[Rung]) -> None:
    axes.set_yticks(range(len(shown)), [rung.name for rung in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("skill: TrueSkill mean, bar of ± 2 sigma")
    axes.grid(axis="x", color="#dddddd", lw=0.8)
    hide_frame(axes)


def _write_beside(axes: Axes, points: float, place: float, text: str, colour: str = "black") -> None:
    """Write to the right of the plot, ending `points` from its edge."""
    axes.annotate(
        text, (1.0, place), xycoords=("axes fraction", "data"), xytext=(points, 0), textcoords="offset points",
        ha="right", va="center", fontsize=8.5, color=colour, annotation_clip=False,
    )  # fmt: skip


def _add_legend(axes: Axes, shown: Sequence[Rung], hollow: str) -> None:
    from matplotlib.lines import Line2D

    kinds = [kind for kind in _STYLES if any(rung.kind == kind for rung in shown)]
    marks = [Line2D([], [], color=_STYLES[k][0], marker=_STYLES[k][1], label=_STYLES[k][2], lw=1.6) for k in kinds]
    if not all(rung.filled for rung in shown):
        marks.append(Line2D([], [], color=FAINT, marker="o", markerfacecolor="white", label=hollow, lw=1.6))
    axes.figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8.5)
