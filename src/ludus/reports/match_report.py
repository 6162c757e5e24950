"""What a match came to: wins, draws and losses by seat, how sure that is, and what the run's ladder had expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ludus.config import RunConfig
from ludus.league.payoffs.cells import Z95, Cell, mean_returns, wilson_interval
from ludus.league.ratings.trueskill import Rating, TrueSkill
from ludus.policies import PolicyStore
from ludus.records import Episode, PolicyRef
from ludus.reports.ladder import Expectation, LadderRow, standing_of_run
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A match from the first side's view. Games that failed count for nobody."""

    game: str
    first: str
    second: str
    by_seat: dict[int, Cell]
    """By the seat of the first side."""
    spread: float
    """Standard deviation of the first side's return."""
    errors: tuple[str, ...]
    """Of the games that failed."""
    distinct: int
    """Games that differ in at least one move."""
    expected: Expectation | None
    """The first side's score by the run's ladder; None where one of the two is not rated."""
    rated_greedy: bool = False
    """Whether the run's evaluation games between the two were greedy."""

    @property
    def total(self) -> Cell:
        """Over all seats."""
        total = Cell()
        for cell in self.by_seat.values():
            total.merge(cell)
        return total

    @property
    def return_margin(self) -> float:
        """Half of the 95 % interval of the mean return."""
        return Z95 * self.spread / sqrt(max(self.total.games, 1))

    def notes(self, *, greedy: bool) -> Iterator[str]:
        """What a reader of the table should know."""
        total = self.total
        low, high = interval(total)
        yield (
            f"{self.first} scores {total.score:.1%} against {self.second} (95 % interval {low:.1%} to {high:.1%}); "
            f"a draw counts half"
        )
        if self.expected is not None:
            how = ", with the likeliest moves" if self.rated_greedy and not greedy else ""
            met = f" and of their {self.expected.games:,} so far" if self.expected.games else ""
            low, high = self.expected.interval
            yield (
                f"the run's ladder expected {self.expected.score:.1%} (95 % interval {low:.1%} to {high:.1%}): "
                f"a fit of all games{met}{how}"
            )
            if self.expected.trueskill is not None:
                yield f"TrueSkill, which matchmaking uses, expected {self.expected.trueskill:.1%}"
        else:
            yield "no expectation: the run has not rated both"
        yield f"mean return of {self.first}: {total.mean_return:+.3f} ± {self.return_margin:.3f}"
        if greedy and self.distinct < total.games:
            yield f"only {self.distinct} of the games differ; the intervals take all for independent (try --sample)"
        if self.errors:
            yield f"{len(self.errors)} games failed and are not counted; the first: {self.errors[0]}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        total = self.total
        return {
            "game": self.game,
            "a": self.first,
            "b": self.second,
            **_counts(total),
            "interval": list(interval(total)),
            "expected_score": self.expected and self.expected.score,
            "expected_interval": self.expected and list(self.expected.interval),
            "expected_by_trueskill": self.expected and self.expected.trueskill,
            "mean_return": total.mean_return,
            "mean_return_margin": self.return_margin,
            "by_seat": [{"seat": seat, **_counts(cell)} for seat, cell in self.by_seat.items()],
            "distinct_games": self.distinct,
            "failed": len(self.errors),
        }


def make_report(
    episodes: Sequence[Episode], *, sides: tuple[str, str], expected: Expectation | None, rated_greedy: bool
) -> Report:
    """Count the games; at least one of them was played to its end."""
    by_seat: dict[int, Cell] = {}
    gains: list[float] = []
    sound = [episode for episode in episodes if not episode.error]
    for episode in sound:
        first = seats_of_first(episode)
        sides_by_seat = ["first" if seat in first else "second" for seat in range(len(episode.returns))]
        means = mean_returns(sides_by_seat, episode.returns)
        mine, theirs = means["first"], means["second"]
        seat = episode.task.id % len(episode.returns)
        by_seat.setdefault(seat, Cell()).add(mine, theirs)
        gains.append(mine)
    mean = sum(gains) / len(gains)
    return Report(
        game=episodes[0].task.game,
        first=sides[0],
        second=sides[1],
        by_seat=dict(sorted(by_seat.items())),
        spread=sqrt(sum((gain - mean) ** 2 for gain in gains) / max(len(gains) - 1, 1)),
        errors=tuple(episode.error for episode in episodes if episode.error),
        distinct=len({_moves(episode) for episode in sound}),
        expected=expected,
        rated_greedy=rated_greedy,
    )


def interval(cell: Cell) -> tuple[float, float]:
    """The 95 % interval of a score."""
    return wilson_interval(cell.score or 0.0, cell.games)


def expected_score(run: RunDirectory, config: RunConfig, first: PolicyRef, second: PolicyRef) -> Expectation | None:
    """The first one's score as the run's ladder has it; None where one of the two is not in it."""
    if first == second:
        return Expectation(score=0.5, interval=(0.5, 0.5), games=0)
    if not run.catalog.exists():
        return None
    with Catalog.open_readonly(run.catalog) as catalog:
        standing = standing_of_run(catalog)
    newest = PolicyStore(run.policies).versions(config.policy.name)[-1:]
    ours, theirs = (_rated(standing.rows, ref, is_newest=[ref] == newest) for ref in (first, second))
    if ours is None or theirs is None or (found := standing.expected(ours.policy, theirs.policy)) is None:
        return None
    if not (ours.rated_games and theirs.rated_games):
        return found
    ratings = Rating(ours.mu, ours.sigma), Rating(theirs.mu, theirs.sigma)
    return replace(found, trueskill=TrueSkill(config.league.trueskill).win_probability(*ratings))


def report_table(report: Report) -> Table:
    """One line for each seat of the first side, and one for all."""
    table = Table(title=f"{report.first} – {report.second} at {report.game}", title_justify="left", box=SIMPLE_HEAD)
    table.add_column(f"{report.first} in", no_wrap=True)
    for name in ("games", "won", "drawn", "lost", "score", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    for seat, cell in report.by_seat.items():
        table.add_row(f"seat {seat}", *_cells(cell))
    table.add_row("all seats", *_cells(report.total), style="bold")
    return table


def _cells(cell: Cell) -> list[str]:
    low, high = interval(cell)
    counts = (f"{number:,}" for number in (cell.games, cell.wins, cell.draws, cell.losses))
    return [*counts, f"{cell.score:.1%}", f"{low:.1%} – {high:.1%}"]


def _counts(cell: Cell) -> dict[str, Any]:
    counts = {"games": cell.games, "wins": cell.wins, "draws": cell.draws, "losses": cell.losses}
    return {**counts, "score": cell.score}


def _rated(rows: Sequence[LadderRow], ref: PolicyRef, *, is_newest: bool) -> LadderRow | None:
    """The newest version is rated as what is learning until it is listed itself."""
    listed = {row.policy: row for row in rows if row.rank is not None}
    found = listed.get(str(ref))
    if found is None and (is_newest or ref.version == 0):
        by_name = listed.get(str(ref.name))
        found = by_name if by_name is None or by_name.kind == "fixed" or is_newest else None
    return found


def seats_of_first(episode: Episode) -> list[int]:
    """Where the first side of a match sat."""
    return [int(seat) for seat in episode.task.inputs["first"]]


def _moves(episode: Episode) -> tuple[object, ...]:
    seats = tuple(seats_of_first(episode))
    return (seats, episode.move_seats.tobytes(), episode.move_actions.tobytes(), episode.move_texts)
