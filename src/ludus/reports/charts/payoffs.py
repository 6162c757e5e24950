"""Who gets what against whom: the payoffs of a league, as scores, and of a population, as returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ludus.reports.charts.canvas import leave_empty, new_figure, set_title
from ludus.reports.charts.heat_map import CELL, HeatMap, draw_heat_map, room_for_names
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
    figure = _draw(heat_map, title, note, ("score of this player …", "… against this one (small: games)"))
    _mark_bar(figure, [0.0, 0.5, 1.0], ["0 %\nloses", "50 %\neven", "100 %\nwins"])
    return figure


def payoff_figure(standing: PopulationStanding, title: str) -> Figure:
    """What each row's policy gets against each column's, with its uncertainty and the number of games."""
    block = standing.most_telling_payoffs(MOST_CELLS)
    if block is None:
        return _against_all_figure(standing, title)
    if not np.isfinite(block.mean).any():
        return leave_empty(new_figure(6.4, 2.4), title, "nobody has met anybody yet")
    limit = float(np.nanmax(np.abs(block.mean))) or 1.0
    last = len(standing.populations) - 1
    heat_map = HeatMap(
        values=block.mean,
        rows=_with_shares(standing, 0, block.rows),
        columns=_with_shares(standing, last, block.columns),
        lowest=-limit,
        highest=limit,
        words=lambda row, column: payoff_words(block, row, column),
    )
    sides = ("this policy gets …", "… against this one") if standing.shared else ("seat 0 gets …", "… against seat 1")
    figure = _draw(heat_map, title, _note(standing, block), sides)
    _mark_bar(figure, [-limit, 0.0, limit], [f"{-limit:.2g}", "0", f"{limit:+.2g}"])
    return figure


def _against_all_figure(standing: PopulationStanding, title: str) -> Figure:
    """With more than two players: what each policy gets while all others play the meta-strategy."""
    rows = [row for row in standing.rows if row.payoff is not None][:MOST_CELLS]
    if not rows:
        return leave_empty(new_figure(6.4, 2.4), title, "nobody has met anybody yet")
    means = np.array([[row.payoff] for row in rows], np.float64)
    limit = float(np.abs(means).max()) or 1.0
    names = [row.policy if row.seat is None else f"{row.policy}, seat {row.seat}" for row in rows]
    heat_map = HeatMap(
        values=means,
        rows=names,
        columns=[""],
        lowest=-limit,
        highest=limit,
        words=lambda row, column: (f"{round(float(means[row, column]), 2) + 0.0:+.2f}",),
    )
    note = f"{standing.players} players: pairs make no table"
    figure = _draw(heat_map, title, note, ("this policy gets …", "… while all others play the meta-strategy"))
    _mark_bar(figure, [-limit, 0.0, limit], [f"{-limit:.2g}", "0", f"{limit:+.2g}"])
    return figure


def payoff_words(block: PairPayoffs, row: int, column: int) -> tuple[str, str, str]:
    """Mean, uncertainty and games of a pair; the latter two are empty where it is exact."""
    mean = f"{round(float(block.mean[row, column]), 2) + 0.0:+.2f}"
    if block.exact[row, column]:
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


def _draw(heat_map: HeatMap, title: str, note: str, sides: tuple[str, str]) -> Figure:
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
    return figure


def _mark_bar(figure: Figure, places: list[float], labels: list[str]) -> None:
    bar = figure.axes[-1]
    bar.set_yticks(places, labels, fontsize=8)
    bar.minorticks_off()


def _with_shares(standing: PopulationStanding, population: int, names: tuple[str, ...]) -> list[str]:
    shares = {name: standing.share(population, name) for name in names}
    return [f"{name}  {share:.0%}" if share >= 0.005 else name for name, share in shares.items()]


def _short(count: int) -> str:
    """A count in at most four characters or so."""
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.1f}M"
