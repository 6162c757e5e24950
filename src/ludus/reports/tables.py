"""The standing of a league, and of a population, as rich tables for a terminal of 80 columns.

What does not fit is in the pictures and with --json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite, isnan
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ludus.league.payoffs.cells import Z95
from ludus.reports.ladder import ENOUGH_GAMES, LadderRow, PayoffTable, Standing
from ludus.reports.number_text import short
from ludus.reports.population_standing import PairPayoffs, PopulationRow, PopulationStanding

MOST_MEMBERS = 10
"""Members shown in the payoff table of a league."""
MOST_ROWS = 20
MOST_COLUMNS = 5
MOST_EXACT_COLUMNS = 8
MOST_BARS = 8
"""Policies of a population that are shown."""
NOTED_SPREAD = 50.0
"""Elo points by which pairs may deviate from their ratings before people are told."""
_LONGEST = 24
_LONGEST_BESIDE = 14
"""Characters of a name in the ladder, and beside payoffs."""
_BAR = 32
_EIGHTHS = " ▏▎▍▌▋▊▉"

Column = tuple[str, Callable[[PopulationRow], str]]
_MEASURES: tuple[Column, ...] = (
    ("Elo", lambda row: "" if row.elo is None or row.elo_error is None else f"{row.elo:.0f}±{Z95 * row.elo_error:.0f}"),
    ("TrueSkill", lambda row: "" if row.mu is None or row.sigma is None else f"{row.mu:.1f}±{2 * row.sigma:.1f}"),
    ("share", lambda row: "" if row.share is None else f"{row.share:.1%}"),
    ("α-rank", lambda row: "" if row.alpha_rank is None else f"{row.alpha_rank:.1%}"),
    ("payoff", lambda row: "" if row.payoff is None else signed(row.payoff)),
    ("games", lambda row: f"{row.games:,}" if row.games else ""),
)
_MEANINGS = {
    "Elo": "Elo: one fit of all games, ± 95 %",
    "TrueSkill": "TrueSkill ± 2 sigma",
    "share": "share: in the meta-strategy",
    "payoff": "payoff: against it",
    "α-rank": "α-rank: its mass",
}


def ladder_table(standing: Standing) -> Table:
    """One line per member, best first."""
    table = _table("#", "policy", "Elo", "score", "won–drawn–lost", "games", "step", "TrueSkill", title="Ladder")
    for row in standing.rows:
        table.add_row(*_ladder_cells(row), style=None if row.active else "dim")
    table.caption = "\n".join(ladder_notes(standing))
    return table


def ladder_notes(standing: Standing) -> list[str]:
    """What is to be known of a ladder: how its ratings were made, and how well one ladder describes these members."""
    lines = [
        "Elo: one fit of all games (Bradley-Terry), ± 95 % interval; their mean is 1000",
        "score: share of points against others, a draw counts half",
        "TrueSkill ± 2 sigma: updated game by game, for matchmaking",
    ]
    if int(standing.payoffs.games.sum()) > sum(row.wins + row.draws + row.losses for row in standing.rows):
        lines.insert(2, "more than two seats: won is ahead of all others, Elo and score compare pairs of seats")
    recorded = sum(row.recorded for row in standing.rows)
    lines += ["recorded games count for Elo, not for TrueSkill"] if recorded else []
    if pairs := len(standing.compared_pairs()):
        upsets, against = len(standing.upsets()), standing.contradictions()
        named = f": {', '.join(f'{low} beats {high}' for high, low in against[:3])}" if against else ""
        more = f" and {len(against) - 3} more" if len(against) > 3 else ""
        lines.append(
            f"of {pairs} pairs with {ENOUGH_GAMES}+ games, {upsets} have a result against this order (95 %), "
            f"{len(against)} of them with ratings that are apart{named}{more}"
        )
    if standing.fit.pair_spread > NOTED_SPREAD:
        lines.append(f"not transitive: pairs deviate from their ratings by {standing.fit.pair_spread:.0f} Elo")
    return lines


def payoff_table(standing: Standing) -> Table:
    """Score of each row against each column, with the number of games."""
    shown = standing.most_telling_payoffs(MOST_MEMBERS)
    count = len(shown.policies)
    title = "Payoffs: score of row against column, games below"
    table = _table("", *(f"#{rank}" for rank in shown.ranks), title=title)
    for place, (rank, policy) in enumerate(zip(shown.ranks, shown.policies, strict=True)):
        table.add_row(f"#{rank} {policy}", *(_score_cell(shown, place, other) for other in range(count)))
    hidden = len(standing.payoffs.policies) - count
    if hidden:
        table.caption = f"fixed players and the best versions; {hidden} more in the PNG and with --json"
    return table


def population_ladder_table(standing: PopulationStanding) -> Group:
    """Every measure of each policy, best first."""
    shown = standing.rows[:MOST_ROWS]
    columns = [column for column in _MEASURES if any(column[1](row) for row in shown)]
    has_seats = not standing.shared
    table = _table("#", "policy", *(["seat"] if has_seats else []), *(name for name, _ in columns))
    for place, row in enumerate(shown, 1):
        seat = ["" if row.seat is None else str(row.seat)] if has_seats else []
        cells = [str(place), shorten(row.policy), *seat, *(read(row) for _, read in columns)]
        table.add_row(*cells, style=None if row.frozen else "dim italic")
    parts = [_MEANINGS[name] for name in _MEANINGS if name in dict(columns)]
    hidden = len(standing.rows) - MOST_ROWS
    lines = ["; ".join(parts[:3]), "; ".join(parts[3:])]
    lines += ["in italics: in passing"] if not all(row.frozen for row in shown) else []
    lines += [f"{hidden:,} more: --json"] if hidden > 0 else []
    return _titled("Ladder", table, lines)


def population_payoff_table(standing: PopulationStanding) -> Group | None:
    """What each row's policy gets against each column's; None where pairs make no table."""
    whole = standing.payoffs
    is_exact = whole is not None and bool(whole.exact.all())
    block = standing.most_telling_payoffs(MOST_EXACT_COLUMNS if is_exact else MOST_COLUMNS)
    if whole is None or block is None:
        return None
    sides = "row against column" if standing.shared else "seat 0 (rows) against seat 1"
    rank = {row.policy: place for place, row in enumerate(standing.rows, 1)}
    names = (f"#{rank[name]}" if standing.shared else shorten(name, 9) for name in block.columns)
    table = _table("", *names)
    for place, name in enumerate(block.rows):
        cells = (_payoff_cell(block, place, other) for other in range(len(block.columns)))
        label = shorten(name, _LONGEST_BESIDE)
        table.add_row(f"#{rank[name]} {label}" if standing.shared else label, *cells)
    hidden = whole.mean.size - block.mean.size
    lines = [
        "" if is_exact else "below: half of a 95 % interval, number of games; alone: exact",
        f"those played most and the newest; {hidden:,} more pairs: --json" if hidden else "",
    ]
    return _titled(f"Payoffs, {'exact' if is_exact else 'played'}: {sides}", table, lines)


def meta_strategy_table(standing: PopulationStanding) -> Group:
    """The largest shares of the newest meta-strategy as bars."""
    table = _table(*([] if standing.shared else ["seat"]), "policy", "share", "")
    notes = []
    for population, shares in enumerate(standing.history[-1].populations):
        most = sorted(shares.items(), key=lambda item: -item[1])
        for place, (name, share) in enumerate(most[:MOST_BARS]):
            seat = [] if standing.shared else [str(population) if place == 0 else ""]
            table.add_row(*seat, shorten(name), f"{share:.1%}", Text(bar(share), "cyan"))
        notes.append(f"{len(most)} of {len(standing.populations[population])}")
    title = f"Meta-strategy after generation {standing.history[-1].generation:,}"
    return _titled(title, table, [f"have a share: {', '.join(notes)}"])


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


def _table(*columns: str, title: str | None = None) -> Table:
    """A table without lines but for one below its head; numbers stand on the right."""
    style: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}
    table = Table(title=title, title_justify="left", caption_justify="left", **style)
    for name in columns:
        table.add_column(name, justify="left" if name in ("", "policy") else "right", no_wrap=True)
    return table


def _titled(title: str, table: Table, caption: Iterable[str]) -> Group:
    """A table below its title and above what is to be known of it: wider than the table, if need be."""
    text = "\n".join(line for line in caption if line)
    return Group(Text(title, "table.title"), table, *([Text(text, "table.caption")] if text else []), "")


def _ladder_cells(row: LadderRow) -> list[str]:
    name = f"{row.policy} (learning)" if row.kind == "learner" else row.policy
    step = short(row.created_step) if row.kind == "snapshot" else ""
    games = f"{row.games:,}"
    if row.rank is None or row.score is None:
        return ["", name, "not rated", "", "", games, step, ""]
    elo, skill = f"{row.elo:.0f}±{row.elo_margin:.0f}", f"{row.mu:.1f}±{2 * row.sigma:.1f}" if row.rated_games else ""
    results = f"{row.wins}–{row.draws}–{row.losses}"
    return [str(row.rank), name, elo, f"{row.score:.1%}", results, games, step, skill]


def _score_cell(table: PayoffTable, row: int, column: int) -> Text:
    score = float(table.score[row, column])
    if isnan(score):
        return Text("·", style="dim")
    style = "green" if score > 0.55 else "red" if score < 0.45 else ""
    return Text.assemble((f"{score:.0%}", style), (f"\n{table.games[row, column]:,}", "dim"))


def _payoff_cell(block: PairPayoffs, row: int, column: int) -> Text:
    value = float(block.mean[row, column])
    if isnan(value):
        return Text("·", style="dim")
    text = Text(signed(value), style="green" if value > 0 else "red" if value < 0 else "")
    if not block.exact[row, column]:
        width = float(block.half_width[row, column])
        text.append(f"\n{f'±{width:.2f} ' if isfinite(width) else ''}{block.games[row, column]:,}", "dim not bold")
    return text
