"""The standing: Elo bars with their uncertainty and TrueSkill beside, who met whom how often, and who got what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.text import Text

from ludus.daemon.messages import LeagueMember, LeagueNews
from ludus.league.payoffs.cells import Z95
from ludus.monitor.run_view import RunView
from ludus.reports.number_text import short
from ludus.tui.drawing import HEAT, PaneSpec, fit, heading, sparkline, spread

Cell = TypeVar("Cell")
CELL, MOST_MEMBERS = 4, 100
CURVES = ("psro/nash_conv", "psro/nash_conv_bound")


def draw(view: RunView, width: int) -> list[Text]:
    """Exploitability, ladder, and the two tables."""
    league = view.league
    if league is None or not (league.members or league.names):
        return [Text("nobody has been rated yet", "dim")]
    lines = _exploitability(view, league, width)
    lines += _ladder(league.members[:MOST_MEMBERS], width)
    names, ladder = league.names, {each.name: place for place, each in enumerate(league.members, start=1)}
    places = [ladder.get(name) for name in names]
    if names and league.scores:
        lines += [Text(""), heading("what the row got against the column", width)]
        lines += _table(places, names, width, lambda row, column: _score(league, row, column))
    if names and league.counts:
        most = max((count for row in league.counts for count in row), default=0)
        lines += [Text(""), heading(f"games of each pair, ░ few to █ {short(most)}", width)]
        lines += _table(places, names, width, lambda row, column: _heat(league, row, column, most))
    return lines


def _exploitability(view: RunView, league: LeagueNews, width: int) -> list[Text]:
    if league.exploitability is None:
        return []
    kind = f" ({league.exploitability_kind})" if league.exploitability_kind else ""
    line = Text(f"exploitability {short(league.exploitability)}{kind}  "[:width], "bold")
    curve = next((found for name in CURVES if (found := view.curve(name))), [])
    line.append_text(sparkline(curve, min(max(width - line.cell_len, 0), 40)))
    return [line]


def _ladder(members: tuple[LeagueMember, ...], width: int) -> list[Text]:
    if not members:
        return []
    is_fitted = all(each.elo is not None for each in members)  # an older daemon knows TrueSkill alone
    ratings = [_rating(each, is_fitted=is_fitted) for each in members]
    low = min(rating - margin for rating, margin in ratings)
    span = max(max(rating + margin for rating, margin in ratings) - low, 1e-9)
    name_width = min(max(len(each.name) for each in members) + 1, max(width // 3, 8))
    bar_width = max(width - name_width - 4 - 32, 4)
    scale = "Elo ± 95 %" if is_fitted else "TrueSkill ± 2σ"
    head = f"{'':4}{'policy':<{name_width}}{scale:<{bar_width + 15}}{'games':>7}{'TrueSkill':>10}"
    lines = [Text(head[:width], "dim")]
    for place, (each, (rating, margin)) in enumerate(zip(members, ratings, strict=True), start=1):
        sure, likely = ((rating + sign * margin - low) / span for sign in (-1, 1))
        said = f"{rating:>7.0f} ± {margin:<4.0f}" if is_fitted else f"{_skill(rating):>7} ± {_skill(margin):<4}"
        figures = f"{said} {short(each.games):>7}{_skill(each.mu):>10}"
        head = f"{place:>3} {fit(each.name, name_width)}"
        lines.append(Text.assemble(head, spread(sure, likely, bar_width), figures))
    return lines


def _rating(member: LeagueMember, *, is_fitted: bool) -> tuple[float, float]:
    """A member's rating and half of its interval."""
    if is_fitted and member.elo is not None:
        return member.elo, Z95 * (member.elo_error or 0.0)
    return member.mu, 2 * member.sigma


def _skill(number: float) -> str:
    return f"{number:.1f}" if abs(number) < 999 else short(number)


def _table(
    places: Sequence[int | None], names: tuple[str, ...], width: int, cell: Callable[[int, int], Text]
) -> list[Text]:
    """As many columns as there is room for, numbered by their place in the ladder."""
    label = min(max(len(name) for name in names), max(width // 4, 6)) + 5
    columns = max(min((width - label) // CELL, len(names)), 1)
    head = "".join(f"{place or '':>{CELL}}" for place in places[:columns])
    lines = [Text(f"{'':{label}}{head}"[:width], "dim")]
    for row, name in enumerate(names[:MOST_MEMBERS]):
        cells = [cell(row, column) for column in range(columns)]
        lines.append(Text.assemble(f"{places[row] or '':>3} {fit(name, label - 5)} ", *cells))
    hidden = len(names) - columns
    return lines + ([Text(f"and {hidden} columns more, where there is room"[:width], "dim")] if hidden else [])


def _score(league: LeagueNews, row: int, column: int) -> Text:
    score = _at(league.scores, row, column)
    if score is None:
        return Text(f"{'·':>{CELL}}", "dim")
    if not 0.0 <= score <= 1.0:
        return Text(f"{_skill(score):>{CELL}}"[:CELL])
    style = "green" if score > 0.55 else "yellow" if score < 0.45 else ""
    return Text(f"{round(100 * score):>{CELL}}", style)


def _heat(league: LeagueNews, row: int, column: int, most: int) -> Text:
    count = _at(league.counts, row, column) or 0
    level = 0 if count <= 0 else 1 + round((len(HEAT) - 2) * count / max(most, 1))
    return Text(f" {HEAT[level] * (CELL - 1)}", "cyan")


def _at(table: tuple[tuple[Cell, ...], ...], row: int, column: int) -> Cell | None:
    return table[row][column] if row < len(table) and column < len(table[row]) else None


LEAGUE = PaneSpec(
    title="League",
    topics=frozenset({"league", "metrics"}),
    draw=draw,
    help=(
        "The ladder, best first, by Elo from one fit of all games: a bar is solid up to the lower end of the 95 % "
        "interval and shaded up to the upper; TrueSkill, which matchmaking uses, beside it. Below, what the row got "
        "against the column in percent of the points (of a population: its payoff; · they never met), and how often "
        "they met, as shades. Rows and columns have the numbers of the ladder."
    ),
)
