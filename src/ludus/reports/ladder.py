"""The league as a person reads it: the ladder and the payoff table, from a run's catalog.

Invariant: members with rated games come first, best mean first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.league.matchmaking.member import Kind, Member, read_tables
from ludus.league.payoffs.cells import Cell
from ludus.reports.population_standing import with_nulls
from ludus.storage.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRow:
    """One member's place."""

    rank: int | None
    """None while it has no games against others."""
    policy: str
    kind: Kind
    mu: float
    sigma: float
    games: int
    wins: int
    draws: int
    losses: int
    mirror_games: int
    active: bool
    created_step: int

    @property
    def score(self) -> float | None:
        """Share of points against others, a draw counting half."""
        decided = self.wins + self.draws + self.losses
        return (self.wins + 0.5 * self.draws) / decided if decided else None


@dataclass(frozen=True, slots=True)
class PayoffTable:
    """Row against column, members in the order of the ladder. All `[n, n]`; NaN where a pair never met."""

    policies: tuple[str, ...]
    games: NDArray[np.int64]
    score: NDArray[np.float64]
    mean_return: NDArray[np.float64]

    def of(self, places: Sequence[int]) -> PayoffTable:
        """The members at these places only."""
        block = np.ix_(places, places)
        policies = tuple(self.policies[place] for place in places)
        return PayoffTable(policies, self.games[block], self.score[block], self.mean_return[block])


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Ladder and payoffs at one moment."""

    rows: tuple[LadderRow, ...]
    payoffs: PayoffTable

    def most_telling_payoffs(self, count: int) -> PayoffTable:
        """Payoffs of at most `count` members: the fixed players, who measure all others, and the best of the rest."""
        met = [row for row in self.rows if row.rank is not None]
        first = sorted(range(len(met)), key=lambda place: (met[place].kind != "fixed", place))
        return self.payoffs.of(sorted(first[:count]))

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where a pair never met."""
        return {
            "ladder": [{**asdict(row), "score": row.score} for row in self.rows],
            "payoffs": {
                "policies": list(self.payoffs.policies),
                "games": self.payoffs.games.tolist(),
                "score": with_nulls(self.payoffs.score),
                "mean_return": with_nulls(self.payoffs.mean_return),
            },
        }


def standing_of_run(catalog: Catalog) -> Standing:
    """The standing that a run last wrote; works on a finished run and beside a live one."""
    return make_standing(*read_tables(catalog))


def make_standing(members: Iterable[Member], cells: Mapping[tuple[str, str], Cell]) -> Standing:
    """Order the members and lay out the cells."""
    ordered = sorted(members, key=lambda m: (not _has_met_others(m), -m.rating.mu, m.rating.sigma, m.key))
    rows = tuple(_row(place, member) for place, member in enumerate(ordered, 1))
    met = [row.policy for row in rows if row.rank is not None]
    return Standing(rows=rows, payoffs=_layout(tuple(met), cells))


def _row(place: int, member: Member) -> LadderRow:
    return LadderRow(
        rank=place if _has_met_others(member) else None,
        policy=member.key,
        kind=member.kind,
        mu=member.rating.mu,
        sigma=member.rating.sigma,
        games=member.games,
        wins=member.wins,
        draws=member.draws,
        losses=member.losses,
        mirror_games=member.mirror_games,
        active=member.active,
        created_step=member.created_step,
    )


def _has_met_others(member: Member) -> bool:
    return member.wins + member.draws + member.losses > 0


def _layout(policies: tuple[str, ...], cells: Mapping[tuple[str, str], Cell]) -> PayoffTable:
    index = {policy: place for place, policy in enumerate(policies)}
    games = np.zeros((len(policies), len(policies)), np.int64)
    score = np.full(games.shape, np.nan)
    mean_return = np.full(games.shape, np.nan)
    for (member, opponent), cell in cells.items():
        if member in index and opponent in index and member != opponent and cell.games:
            place = index[member], index[opponent]
            games[place], score[place], mean_return[place] = cell.games, cell.score, cell.mean_return
    return PayoffTable(policies, games, score, mean_return)
