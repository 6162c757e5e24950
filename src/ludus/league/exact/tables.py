"""A population as rich tables for a terminal."""

from __future__ import annotations

from itertools import chain

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ludus.league.exact.standing import PopulationStanding

MOST_ROWS = 12
MOST_COLUMNS = 8
"""Policies shown; --json has all."""


def meta_strategy_table(standing: PopulationStanding) -> Table:
    """Who is played how often, most played first, both seats side by side."""
    table = _plain_table("Meta-strategy")
    for seat in (0, 1):
        table.add_column(f"seat {seat}", no_wrap=True)
        table.add_column("share", justify="right", no_wrap=True)
    seats = [standing.most_played(seat, MOST_ROWS) for seat in (0, 1)]
    for line in range(max(map(len, seats))):
        shares = (_share(standing, seat, places[line : line + 1]) for seat, places in enumerate(seats))
        table.add_row(*chain.from_iterable(shares))
    counts = [f"{(weights > 0).sum()} of {len(weights)}" for weights in standing.weights]
    table.caption = f"have a share: {', '.join(counts)}\ng12: joined in generation 12"
    return table


def payoff_table(standing: PopulationStanding) -> Table:
    """What seat 0 gets when a row's policy meets a column's: those played most."""
    rows, columns = standing.most_played(0, MOST_COLUMNS), standing.most_played(1, MOST_COLUMNS)
    table = _plain_table("Payoffs, exact")
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(standing.name(1, column), justify="right", no_wrap=True)
    for row in rows:
        cells = (_payoff(float(standing.payoffs[row, column])) for column in columns)
        table.add_row(standing.name(0, row), *cells)
    hidden = standing.payoffs.size - len(rows) * len(columns)
    more = f"\n{hidden:,} more pairs: --json" if hidden else ""
    table.caption = f"of seat 0 (rows)\nagainst seat 1{more}"
    return table


def _share(standing: PopulationStanding, seat: int, places: list[int]) -> tuple[str, str]:
    """Two cells of one policy; empty ones where a seat has no more."""
    return (standing.name(seat, places[0]), f"{standing.weights[seat][places[0]]:.1%}") if places else ("", "")


def _payoff(value: float) -> Text:
    return Text(f"{round(value, 3) + 0.0:+.3f}", style="green" if value > 0 else "red" if value < 0 else "")


def _plain_table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
