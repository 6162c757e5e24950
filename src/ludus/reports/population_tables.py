"""A population as rich tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, isnan

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ludus.reports.league_tables import plain_table
from ludus.reports.population_standing import PairPayoffs, PopulationRow, PopulationStanding

MOST_ROWS = 20
MOST_COLUMNS = 5
MOST_EXACT_COLUMNS = 8
MOST_BARS = 8
"""Policies shown; --json has all, the pictures more."""
_LONGEST = 24
_LONGEST_BESIDE = 14
"""Characters of a name in the ladder, and beside payoffs."""
_BAR = 32
_EIGHTHS = " ▏▎▍▌▋▊▉"

Column = tuple[str, Callable[[PopulationRow], str]]
_MEASURES: tuple[Column, ...] = (
    ("skill", lambda row: "" if row.mu is None or row.sigma is None else f"{row.mu:.1f}±{2 * row.sigma:.1f}"),
    ("Elo", lambda row: "" if row.elo is None or row.elo_error is None else f"{row.elo:.0f}±{row.elo_error:.0f}"),
    ("share", lambda row: "" if row.share is None else f"{row.share:.1%}"),
    ("α-rank", lambda row: "" if row.alpha_rank is None else f"{row.alpha_rank:.1%}"),
    ("payoff", lambda row: "" if row.payoff is None else signed(row.payoff)),
    ("games", lambda row: f"{row.games:,}" if row.games else ""),
)
_MEANINGS = {
    "skill": "skill: TrueSkill ± 2 sigma",
    "Elo": "Elo ± standard error",
    "share": "share: in the meta-strategy",
    "payoff": "payoff: against it",
    "α-rank": "α-rank: its mass",
}


def ladder_table(standing: PopulationStanding) -> Group:
    """Who is how good by every measure there is, best first."""
    shown = standing.rows[:MOST_ROWS]
    columns = [column for column in _MEASURES if any(column[1](row) for row in shown)]
    has_seats = not standing.shared
    table = plain_table()
    for name in ("#", "policy", *(["seat"] if has_seats else []), *(name for name, _ in columns)):
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for place, row in enumerate(shown, 1):
        seat = ["" if row.seat is None else str(row.seat)] if has_seats else []
        cells = [str(place), shorten(row.policy), *seat, *(read(row) for _, read in columns)]
        table.add_row(*cells, style=None if row.frozen else "dim italic")
    return _titled("Ladder", table, _ladder_caption(standing, [name for name, _ in columns]))


def payoff_table(standing: PopulationStanding) -> Group | None:
    """What each row's policy gets against each column's; None where pairs make no table."""
    if standing.payoffs is None:
        return None
    is_exact = bool(standing.payoffs.exact.all())
    block = standing.most_telling_payoffs(MOST_EXACT_COLUMNS if is_exact else MOST_COLUMNS)
    if block is None:
        return None
    sides = "row against column" if standing.shared else "seat 0 (rows) against seat 1"
    table = plain_table()
    table.add_column("", no_wrap=True)
    for place, name in enumerate(block.columns, 1):
        table.add_column(f"#{place}" if standing.shared else shorten(name, 9), justify="right", no_wrap=True)
    for place, name in enumerate(block.rows):
        cells = (_payoff_cell(block, place, other) for other in range(len(block.columns)))
        short = shorten(name, _LONGEST_BESIDE)
        table.add_row(f"#{place + 1} {short}" if standing.shared else short, *cells)
    title = f"Payoffs, {'exact' if is_exact else 'played'}: {sides}"
    return _titled(title, table, _payoff_caption(standing, block, is_exact=is_exact))


def meta_strategy_table(standing: PopulationStanding) -> Group:
    """The largest shares of the newest meta-strategy as bars."""
    table = plain_table()
    if not standing.shared:
        table.add_column("seat", justify="right", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    notes = []
    for population, shares in enumerate(standing.history[-1].populations):
        most = sorted(shares.items(), key=lambda item: -item[1])
        for place, (name, share) in enumerate(most[:MOST_BARS]):
            seat = [] if standing.shared else [str(population) if place == 0 else ""]
            table.add_row(*seat, shorten(name), f"{share:.1%}", Text(bar(share), "cyan"))
        notes.append(f"{len(most)} of {len(standing.populations[population])}")
    title = f"Meta-strategy after generation {standing.history[-1].generation:,}"
    return _titled(title, table, f"have a share: {', '.join(notes)}")


def _titled(title: str, table: Table, caption: str) -> Group:
    """A table below its title and above what is to be known of it: wider than the table, if need be."""
    below = [Text(caption, "table.caption")] if caption else []
    return Group(Text(title, "table.title"), table, *below, "")


def bar(share: float) -> str:
    """A share as a bar of blocks."""
    eighths = round(8 * _BAR * share)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def shorten(name: str, most: int = _LONGEST) -> str:
    """A policy's name in so many characters; number and version at its end stay."""
    if len(name) <= most:
        return name
    stem, separator, version = name.rpartition("@")
    end = stem[-2:] + separator + version
    return f"{name[: max(most - len(end) - 1, 1)]}…{end}"


def signed(value: float) -> str:
    """A payoff; rounding gives no -0."""
    return f"{round(value, 3) + 0.0:+.3f}"


def _ladder_caption(standing: PopulationStanding, columns: list[str]) -> str:
    parts = [_MEANINGS[name] for name in _MEANINGS if name in columns]
    hidden = len(standing.rows) - MOST_ROWS
    lines = ["; ".join(parts[:3]), "; ".join(parts[3:])]
    lines += ["in italics: in passing"] if not all(row.frozen for row in standing.rows[:MOST_ROWS]) else []
    lines += [f"{hidden:,} more: --json"] if hidden > 0 else []
    return "\n".join(line for line in lines if line)


def _payoff_caption(standing: PopulationStanding, block: PairPayoffs, *, is_exact: bool) -> str:
    whole = standing.payoffs
    hidden = 0 if whole is None else whole.mean.size - block.mean.size
    lines = [
        *([] if is_exact else ["below: half of a 95 % interval, number of games; alone: exact"]),
        *([f"those played most and the newest; {hidden:,} more pairs: --json"] if hidden else []),
    ]
    return "\n".join(lines)


def _payoff_cell(block: PairPayoffs, row: int, column: int) -> Text:
    value = float(block.mean[row, column])
    if isnan(value):
        return Text("·", style="dim")
    text = Text(signed(value), style="green" if value > 0 else "red" if value < 0 else "")
    if not block.exact[row, column]:
        width = float(block.half_width[row, column])
        text.append(f"\n{f'±{width:.2f} ' if isfinite(width) else ''}{block.games[row, column]:,}", "dim not bold")
    return text
