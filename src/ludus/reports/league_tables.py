"""The standing of a league as rich tables for a terminal."""

from __future__ import annotations

from math import isnan

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from ludus.reports.ladder import LadderRow, PayoffTable, Standing

MOST_COLUMNS = 10
"""Members shown in the payoff table: more do not fit a terminal. The PNG and --json have more."""


def ladder_table(standing: Standing) -> Table:
    """One line per member, best first."""
    table = plain_table("Ladder")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    table.add_column("skill", justify="right", no_wrap=True)
    for name in ("score", "games", "won–drawn–lost", "step"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in standing.rows:
        table.add_row(*_ladder_cells(row), style=None if row.active else "dim")
    table.caption = "skill: TrueSkill mean ± 2 sigma; score: share of points against others, a draw counts half"
    return table


def payoff_table(standing: Standing) -> Table:
    """Score of each row against each column, with the number of games."""
    shown = standing.most_telling_payoffs(MOST_COLUMNS)
    table = plain_table("Payoffs: score of row against column, games below")
    table.add_column("", no_wrap=True)
    for place in range(1, len(shown.policies) + 1):
        table.add_column(f"#{place}", justify="right", no_wrap=True)
    for place, policy in enumerate(shown.policies):
        cells = (_payoff_cell(shown, place, other) for other in range(len(shown.policies)))
        table.add_row(f"#{place + 1} {policy}", *cells)
    hidden = len(standing.payoffs.policies) - len(shown.policies)
    if hidden:
        table.caption = f"fixed players and the best versions; {hidden} more in the PNG and with --json"
    return table


def plain_table(title: str | None = None) -> Table:
    """A table without lines but for one below its head."""
    left: JustifyMethod = "left"
    return Table(
        title=title, title_justify=left, caption_justify=left, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )


def _ladder_cells(row: LadderRow) -> list[str]:
    name = f"{row.policy} (learning)" if row.kind == "learner" else row.policy
    step = f"{row.created_step:,}" if row.kind == "snapshot" else ""
    games = f"{row.games:,}"
    if row.rank is None or row.score is None:
        return ["", name, "not rated", "", games, "", step]
    skill = f"{row.mu:.1f} ± {2 * row.sigma:.1f}"
    return [str(row.rank), name, skill, f"{row.score:.1%}", games, f"{row.wins}–{row.draws}–{row.losses}", step]


def _payoff_cell(table: PayoffTable, row: int, column: int) -> Text:
    score = float(table.score[row, column])
    if isnan(score):
        return Text("·", style="dim")
    style = "green" if score > 0.55 else "red" if score < 0.45 else ""
    return Text.assemble((f"{score:.0%}", style), (f"\n{table.games[row, column]:,}", "dim"))
