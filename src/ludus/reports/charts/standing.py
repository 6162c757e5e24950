"""The standing of a league and of a population as pictures: the ladder, and the payoffs.

The ladder shows Elo with its 95 % interval, and beside it what else is known of each
member. Payoffs are scores in a league and returns in a population; members are numbered as in the ladder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ludus.league.payoffs.cells import Z95
from ludus.reports.charts.canvas import (
    CELL,
    FAINT,
    HeatMap,
    draw_heat_map,
    hide_frame,
    leave_empty,
    new_figure,
    room_for_names,
    set_title,
)
from ludus.reports.ladder import LadderRow, Standing
from ludus.reports.population_standing import PairPayoffs, PopulationRow, PopulationStanding

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
_COUNTS, _TRUESKILL = ("won–drawn–lost", 80.0), ("TrueSkill", 54.0)
_ELO = "Elo: one fit of all games, with its 95 % interval"
MOST_CELLS = 24
"""Members of each side that are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One line of the picture."""

    name: str
    kind: str
    filled: bool
    rating: float
    margin: float
    """Half of the interval that is drawn."""
    beside: tuple[str, ...]
    """What is written to the right, one for each column."""


def ladder_figure(standing: Standing, title: str) -> Figure:
    """Elo of each rated member with its 95 % interval, best on top."""
    rungs = [_rung(row) for row in standing.rows if row.rank is not None]
    return _draw_ladder(rungs, title, (("score", 36.0), _COUNTS, _TRUESKILL), "retired")


def population_ladder_figure(standing: PopulationStanding, title: str) -> Figure:
    """The same for a population, with the share in the meta-strategy and alpha-rank's mass."""
    rungs = [_population_rung(place, row) for place, row in enumerate(standing.rows, 1) if row.elo is not None]
    columns = (("share", 42.0), ("α-rank", 46.0), ("payoff", 46.0), _COUNTS, _TRUESKILL)
    return _draw_ladder(rungs, title, columns, "in passing")


def _rung(row: LadderRow) -> Rung:
    score = "" if row.score is None else f"{row.score:.0%}"
    return Rung(
        name=f"{row.rank}. {row.policy}",
        kind=row.kind,
        filled=row.active,
        rating=row.elo or 0.0,
        margin=row.elo_margin,
        beside=(score, f"{row.wins}–{row.draws}–{row.losses}", f"{row.mu:.1f}" if row.rated_games else ""),
    )


def _population_rung(place: int, row: PopulationRow) -> Rung:
    seat = "" if row.seat is None or row.generation else f", seat {row.seat}"
    beside = (
        "" if row.share is None else f"{row.share:.0%}",
        "" if row.alpha_rank is None else f"{row.alpha_rank:.0%}",
        "" if row.payoff is None else f"{round(row.payoff, 2) + 0.0:+.2f}",
        f"{row.wins}–{row.draws}–{row.losses}",
        "" if row.mu is None else f"{row.mu:.1f}",
    )
    kind = "snapshot" if row.generation else "fixed"
    return Rung(
        name=f"{place}. {row.policy}{seat}",
        kind=kind,
        filled=row.frozen,
        rating=row.elo or 0.0,
        margin=Z95 * (row.elo_error or 0.0),
        beside=beside,
    )


def _draw_ladder(rungs: Sequence[Rung], title: str, columns: Sequence[tuple[str, float]], hollow: str) -> Figure:
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
        colour, marker, _ = _STYLES[rung.kind]
        face = colour if rung.filled else "white"
        axes.errorbar(
            rung.rating, line, xerr=rung.margin, fmt=marker, color=colour, markerfacecolor=face, markersize=7,
            capsize=3, lw=1.6,
        )  # fmt: skip
        for place, end in ends.items():
            _write_beside(axes, end, line, rung.beside[place])
    for place, end in ends.items():
        _write_beside(axes, end, -0.85, columns[place][0], FAINT)
    _label_ladder(axes, shown)
    _add_legend(axes, shown, hollow)
    hidden = len(rungs) - len(shown)
    set_title(axes, title, f"best {len(shown)}; {hidden} more not shown" if hidden else "")
    return figure


def _label_ladder(axes: Axes, shown: Sequence[Rung]) -> None:
    axes.set_yticks(range(len(shown)), [rung.name for rung in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel(_ELO)
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


def score_figure(standing: Standing, title: str) -> Figure:
    """Score of each row against each column, in percent, with the number of games in small print."""
    table = standing.most_telling_payoffs(MOST_CELLS)
    if not table.policies:
        return leave_empty(new_figure(4.8, 4.0), title, "no games between members yet")
    names = [f"{rank}. {policy}" for rank, policy in zip(table.ranks, table.policies, strict=True)]
    heat_map = HeatMap(
        values=table.score,
        rows=names,
        columns=names,
        lowest=0.0,
        highest=1.0,
        words=lambda row, column: (f"{100 * table.score[row, column]:.0f}", _short(int(table.games[row, column]))),
    )
    hidden = len(standing.payoffs.policies) - len(table.policies)
    note = f"fixed players and the best versions; {hidden} more not shown" if hidden else ""
    sides = "score of this player …", "… against this one (small: games)"
    return _draw_payoffs(heat_map, title, note, sides, ["0 %\nloses", "50 %\neven", "100 %\nwins"])


def payoff_figure(standing: PopulationStanding, title: str) -> Figure:
    """What each row's policy gets against each column's, with its uncertainty and the number of games.

    With more than two players: what each policy gets while all others play the meta-strategy.
    """
    block = standing.most_telling_payoffs(MOST_CELLS)
    if block is not None:
        means, rows, columns = (
            block.mean,
            _with_shares(standing, 0, block.rows),
            _with_shares(standing, -1, block.columns),
        )
        note, sides = _note(standing, block), ("seat 0 gets …", "… against seat 1")
        if standing.shared:
            sides = "this policy gets …", "… against this one"
    else:
        known = [row for row in standing.rows if row.payoff is not None][:MOST_CELLS]
        rows, columns = [row.policy if row.seat is None else f"{row.policy}, seat {row.seat}" for row in known], [""]
        means = np.array([[row.payoff] for row in known], np.float64)
        note = f"{standing.players} players: pairs make no table"
        sides = "this policy gets …", "… while all others play the meta-strategy"
    if not np.isfinite(means).any():
        return leave_empty(new_figure(6.4, 2.4), title, "nobody has met anybody yet")
    limit = float(np.nanmax(np.abs(means))) or 1.0
    heat_map = HeatMap(
        values=means,
        rows=rows,
        columns=columns,
        lowest=-limit,
        highest=limit,
        words=lambda row, column: _payoff_words(float(means[row, column]), block, row, column),
    )
    return _draw_payoffs(heat_map, title, note, sides, [f"{-limit:.2g}", "0", f"{limit:+.2g}"])


def _payoff_words(value: float, block: PairPayoffs | None, row: int, column: int) -> tuple[str, str, str]:
    """Mean, uncertainty and games of a pair; the latter two are empty where it is exact, or no pair."""
    mean = f"{round(value, 2) + 0.0:+.2f}"
    if block is None or block.exact[row, column]:
        return mean, "", ""
    width = float(block.half_width[row, column])
    return mean, f"±{width:.2f}" if np.isfinite(width) else "", _short(int(block.games[row, column]))


def _note(standing: PopulationStanding, block: PairPayoffs) -> str:
    size = [len(names) for names in (standing.populations[0], standing.populations[-1])]
    hidden = max(size[0] - len(block.rows), size[1] - len(block.columns))
    lines = [
        "all exact" if block.exact.all() else "small: half of a 95 % interval and games; without: exact",
        "beside the names: share in the meta-strategy",
        *([f"those played most and the newest; {hidden} more not shown"] if hidden else []),
    ]
    return "\n".join(lines)


def _draw_payoffs(heat_map: HeatMap, title: str, note: str, sides: tuple[str, str], labels: list[str]) -> Figure:
    """The heat map with what its sides are, and a bar with labels at its ends and in its middle."""
    rows, columns = (max(CELL * len(names), 2.6) for names in (heat_map.rows, heat_map.columns))
    width, height = room_for_names(heat_map.rows), room_for_names(heat_map.columns)
    figure = new_figure(columns + width + 2.2, rows + height + 1.4)
    axes = figure.subplots()
    picture = draw_heat_map(axes, heat_map)
    axes.set_ylabel(sides[0])
    axes.set_xlabel(sides[1])
    set_title(axes, title, note)
    bar = figure.colorbar(picture, ax=axes, shrink=min(1.0, 3.0 / (CELL * len(heat_map.rows) + 0.01)), pad=0.02)
    bar.outline.set_visible(False)
    middle = (heat_map.lowest + heat_map.highest) / 2
    bar.ax.set_yticks([heat_map.lowest, middle, heat_map.highest], labels, fontsize=8)
    bar.ax.minorticks_off()
    return figure


def _with_shares(standing: PopulationStanding, population: int, names: tuple[str, ...]) -> list[str]:
    shares = {name: standing.share(population, name) for name in names}
    return [f"{name}  {share:.0%}" if share >= 0.005 else name for name, share in shares.items()]


def _short(count: int) -> str:
    """A count in at most four characters or so."""
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.1f}M"
