"""The standing of a league as two pictures: the ladder with its uncertainty, and the payoffs as a heat map.

Drawn without a display and without pyplot's global state; matplotlib is imported when a picture is asked for.
Colours are safe for colour-blind readers, and every colour is doubled by a shape or a number.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from ludus.league.ladder import LadderRow, PayoffTable, Standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40
MOST_CELLS = 24
_STYLES = {
    "snapshot": ("#0072B2", "o", "version"),
    "fixed": ("#D55E00", "s", "fixed player"),
    "learner": ("#009E73", "D", "learning"),
}
_FAINT = "#8a8a8a"
_SCORE_AT, _COUNTS_AT = 36.0, 116.0
"""Where the columns beside the ladder end, in points."""


def ladder_png(standing: Standing, title: str) -> bytes:
    """Skill of each rated member with a bar of two standard deviations to each side, best on top."""
    rated = [row for row in standing.rows if row.rank is not None]
    shown = rated[:MOST_ROWS]
    figure = _figure(8.4, 1.7 + 0.34 * max(len(shown), 2))
    axes = figure.subplots()
    if not shown:
        return _empty(figure, axes, title, "no rated games yet")
    for place, row in enumerate(shown):
        _draw_ladder_row(axes, place, row)
    _label_ladder(axes, shown)
    hidden = len(rated) - len(shown)
    axes.set_title(
        title + (f"  (best {len(shown)}; {hidden} more not shown)" if hidden else ""), loc="left", fontsize=12
    )
    return _png(figure)


def payoff_png(standing: Standing, title: str) -> bytes:
    """Score of each row against each column, in percent, with the number of games in small print."""
    table = standing.most_telling_payoffs(MOST_CELLS)
    count = len(table.policies)
    side = max(0.62 * count, 2.6)
    name_room = 0.085 * max((len(policy) for policy in table.policies), default=0)
    figure = _figure(side + name_room + 2.2, side + name_room + 1.4)
    axes = figure.subplots()
    if not count:
        return _empty(figure, axes, title, "no games between members yet")
    _draw_heat_map(figure, axes, table)
    hidden = len(standing.payoffs.policies) - count
    axes.set_title(
        title + (f"\nfixed players and the best versions; {hidden} more not shown" if hidden else ""),
        loc="left",
        fontsize=12,
        pad=10,
    )
    return _png(figure)


def _draw_ladder_row(axes: Axes, place: int, row: LadderRow) -> None:
    colour, marker, _ = _STYLES[row.kind]
    face = colour if row.active else "white"
    axes.errorbar(
        row.mu,
        place,
        xerr=2 * row.sigma,
        fmt=marker,
        color=colour,
        markerfacecolor=face,
        markersize=7,
        capsize=3,
        lw=1.6,
    )
    for column, text in ((_SCORE_AT, f"{row.score:.0%}"), (_COUNTS_AT, f"{row.wins}–{row.draws}–{row.losses}")):
        _write_beside(axes, column, place, text)


def _label_ladder(axes: Axes, shown: list[LadderRow]) -> None:
    axes.set_yticks(range(len(shown)), [f"{row.rank}. {row.policy}" for row in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("skill: TrueSkill mean, bar of ± 2 sigma")
    for column, text in ((_SCORE_AT, "score"), (_COUNTS_AT, "won–drawn–lost")):
        _write_beside(axes, column, -0.85, text, _FAINT)
    axes.grid(axis="x", color="#dddddd", lw=0.8)
    axes.set_axisbelow(True)
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.tick_params(axis="y", length=0)
    _add_legend(axes, shown)


def _write_beside(axes: Axes, points: float, place: float, text: str, colour: str = "black") -> None:
    """Write to the right of the plot, ending `points` from its edge."""
    axes.annotate(
        text, (1.0, place), xycoords=("axes fraction", "data"), xytext=(points, 0), textcoords="offset points",
        ha="right", va="center", fontsize=8.5, color=colour, annotation_clip=False,
    )  # fmt: skip


def _add_legend(axes: Axes, shown: list[LadderRow]) -> None:
    from matplotlib.lines import Line2D

    kinds = [kind for kind in _STYLES if any(row.kind == kind for row in shown)]
    marks = [Line2D([], [], color=_STYLES[k][0], marker=_STYLES[k][1], label=_STYLES[k][2], lw=1.6) for k in kinds]
    if any(not row.active for row in shown):
        marks.append(Line2D([], [], color=_FAINT, marker="o", markerfacecolor="white", label="retired", lw=1.6))
    axes.figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8.5)


def _draw_heat_map(figure: Figure, axes: Axes, table: PayoffTable) -> None:
    from matplotlib import colormaps

    shades = colormaps["PuOr_r"].with_extremes(bad="#eeeeee")
    picture = axes.imshow(np.ma.masked_invalid(table.score), cmap=shades, vmin=0.0, vmax=1.0, aspect="equal")
    places = range(len(table.policies))
    axes.set_xticks(places, table.policies, rotation=90, fontsize=9)
    axes.set_yticks(places, table.policies, fontsize=9)
    axes.set_xticks(np.arange(0.5, len(places) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(places) - 1), minor=True)
    axes.grid(which="minor", color="white", lw=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    for row, column in zip(*np.nonzero(table.games), strict=True):
        red, green, blue, _ = shades(float(table.score[row, column]))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        _write_cell(axes, table, int(row), int(column), "white" if dark else "black")
    bar = figure.colorbar(picture, ax=axes, shrink=min(1.0, 3.0 / (0.62 * len(places) + 0.01)), pad=0.02)
    bar.set_ticks([0.0, 0.5, 1.0], labels=["0 %\nloses", "50 %\neven", "100 %\nwins"], fontsize=8)
    bar.outline.set_visible(False)
    axes.set_ylabel("score of this player …")
    axes.set_xlabel("… against this one (small: games)")


def _write_cell(axes: Axes, table: PayoffTable, row: int, column: int, colour: str) -> None:
    axes.text(
        column, row - 0.1, f"{100 * table.score[row, column]:.0f}", ha="center", va="center", fontsize=10, color=colour
    )
    axes.text(
        column, row + 0.27, _short(int(table.games[row, column])), ha="center", va="center", fontsize=6.5, color=colour
    )


def _short(count: int) -> str:
    """A count in at most four characters or so."""
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.1f}M"


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _empty(figure: Figure, axes: Axes, title: str, message: str) -> bytes:
    axes.set_axis_off()
    axes.set_title(title, loc="left", fontsize=12)
    axes.text(0.5, 0.5, message, ha="center", va="center", color=_FAINT, transform=axes.transAxes)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    content = BytesIO()
    figure.savefig(content, format="png", facecolor="white", bbox_inches="tight", pad_inches=0.15)
    return content.getvalue()
