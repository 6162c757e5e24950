"""Who gets what against whom: the payoffs of a league, as scores, and of a population, as returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ludus.reports.charts.canvas import CELL, HeatMap, draw_heat_map, leave_empty, new_figure, room_for_names, set_title
from ludus.reports.ladder import Standing
from ludus.reports.population_standing import PairPayoffs, PopulationStanding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CELLS = 24
"""Members of each side that are drawn."""


def score_figure(standing: Standing, title: str) -> Figure:
    """Score of each row against each column, in percent, with the number of games in small print."""
    table = standing.most_telling_payoffs(MOST_CELLS)
    if not table.policies:
        return leave_empty(new_figure(4.8, 4.0), title, "no games between members yet")
    heat_map = HeatMap(
        values=table.score,
        rows=table.policies,
        columns=table.policies,
        lowest=0.0,
        highest=1.0,
        words=lambda row, column: (f"{100 * table.score[row, column]:.0f}", _short(int(table.games[row, column]))),
    )
    hidden = len(standing.payoffs.policies) - len(table.policies)
    note = f"fixed players and the best versions; {hidden} more not shown" if hidden else ""
    sides = "score of this player …", "… against this one (small: games)"
    return _draw(heat_map, title, note, sides, ["0 %\nloses", "50 %\neven", "100 %\nwins"])


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
    return _draw(heat_map, title, note, sides, [f"{-limit:.2g}", "0", f"{limit:+.2g}"])


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


def _draw(heat_map: HeatMap, title: str, note: str, sides: tuple[str, str], labels: list[str]) -> Figure:
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
