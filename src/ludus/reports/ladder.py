"""The league as a person reads it: the ladder and the payoff table, from a run's catalog and its recorded games.

Ratings are Elo from one fit of the whole table (`fit_elo`), whatever the order of the games; TrueSkill, which
matchmaking updates game by game, stands beside it. Invariant: members with games against others come first, best rated
first; ladder and payoff table number them alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.league.matchmaking.member import Kind, Member, fit_members, met_members, read_tables
from ludus.league.matchmaking.recorded import count_recorded, read_recorded
from ludus.league.payoffs.cells import Z95, Cell, wilson_interval
from ludus.league.ratings.elo import EloRatings
from ludus.reports.population_standing import with_nulls
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory

ENOUGH_GAMES = 40
"""Games of a pair from which on its result is compared with the ladder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRow:
    """One member's place."""

    rank: int | None
    """None while it has no games against others."""
    policy: str
    kind: Kind
    elo: float | None
    """From one fit of all games; the mean of all members is 1000."""
    elo_error: float | None
    """Its standard error."""
    mu: float
    """TrueSkill, which does not count recorded games."""
    sigma: float
    games: int
    wins: int
    draws: int
    losses: int
    mirror_games: int
    active: bool
    created_step: int
    score: float | None = None
    """Share of points against the other seats, a draw counting half."""
    recorded: int = 0
    """Games that were played and recorded on request, outside the run's own evaluations."""

    @property
    def rated_games(self) -> int:
        """Games that TrueSkill knows of."""
        return self.wins + self.draws + self.losses - self.recorded

    @property
    def elo_margin(self) -> float:
        """Half of the 95 % interval of the rating."""
        return Z95 * (self.elo_error or 0.0)


@dataclass(frozen=True, slots=True)
class PayoffTable:
    """Row against column, members in the order of the ladder. All `[n, n]`; NaN where a pair never met."""

    policies: tuple[str, ...]
    ranks: tuple[int, ...]
    """Their places in the ladder."""
    games: NDArray[np.int64]
    score: NDArray[np.float64]
    mean_return: NDArray[np.float64]

    def of(self, places: Sequence[int]) -> PayoffTable:
        """The members at these places only."""
        block = np.ix_(places, places)
        policies, ranks = tuple(self.policies[place] for place in places), tuple(self.ranks[place] for place in places)
        return PayoffTable(policies, ranks, self.games[block], self.score[block], self.mean_return[block])

    def total_score(self, place: int) -> float:
        """Share of points of a member against all that it met."""
        games = self.games[place]
        return float(np.nansum(self.score[place] * games) / games.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Score of one member against another, as a standing has it."""

    score: float
    interval: tuple[float, float]
    games: int
    """That the two had so far."""
    trueskill: float | None = None
    """The score by TrueSkill, where it has rated both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Ladder and payoffs at one moment."""

    rows: tuple[LadderRow, ...]
    payoffs: PayoffTable
    fit: EloRatings
    """Of the members of the payoff table, in their order."""

    def most_telling_payoffs(self, count: int) -> PayoffTable:
        """Payoffs of at most `count` members: the fixed players, who measure all others, and the best of the rest."""
        met = [row for row in self.rows if row.rank is not None]
        first = sorted(range(len(met)), key=lambda place: (met[place].kind != "fixed", place))
        return self.payoffs.of(sorted(first[:count]))

    def expected(self, policy: str, opponent: str) -> Expectation | None:
        """The score of a member against another, from the fit and from the games of the two; None without a rating."""
        table = self.payoffs
        if policy not in table.policies or opponent not in table.policies:
            return None
        pair = table.policies.index(policy), table.policies.index(opponent)
        games, score = int(table.games[pair]), float(np.nan_to_num(table.score[pair]))
        middle, low, high = self.fit.expected(*pair, games=games, score=score)
        return Expectation(score=middle, interval=(low, high), games=games)

    def compared_pairs(self) -> list[tuple[int, int]]:
        """Places of the pairs with enough games to be compared with the ladder, the better rated first."""
        return [(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(self.payoffs.games >= ENOUGH_GAMES)), strict=True)]

    def upsets(self) -> list[tuple[int, int]]:
        """Places of the compared pairs whose own 95 % interval excludes the ladder's order, the better rated first."""
        score, games = self.payoffs.score, self.payoffs.games
        return [
            (i, j) for i, j in self.compared_pairs() if wilson_interval(float(score[i, j]), int(games[i, j]))[1] < 0.5
        ]

    def contradictions(self) -> list[tuple[str, str]]:
        """The upsets between ratings that are apart: neither chance nor unsure ratings explain them."""
        return [self._names(pair) for pair in self.upsets() if self.fit.is_apart(*pair)]

    def _names(self, pair: tuple[int, int]) -> tuple[str, str]:
        return self.payoffs.policies[pair[0]], self.payoffs.policies[pair[1]]

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where a pair never met."""
        return {
            "ladder": [asdict(row) for row in self.rows],
            "payoffs": {
                "policies": list(self.payoffs.policies),
                "ranks": list(self.payoffs.ranks),
                "games": self.payoffs.games.tolist(),
                "score": with_nulls(self.payoffs.score),
                "mean_return": with_nulls(self.payoffs.mean_return),
            },
            "fit": {
                "model": "Bradley-Terry on the Elo scale, maximum likelihood with one imagined draw for each member",
                "pair_spread": self.fit.pair_spread,
                "compared_pairs": len(self.compared_pairs()),
                "upsets": [list(self._names(pair)) for pair in self.upsets()],
                "contradictions": [list(pair) for pair in self.contradictions()],
            },
        }


def standing_of_run(catalog: Catalog) -> Standing:
    """The standing that a run last wrote, with the games recorded since; of a finished run and beside a live one."""
    members, cells = read_tables(catalog)
    return make_standing(*count_recorded(members, cells, read_recorded(RunDirectory(catalog.path.parent).recorded)))


def make_standing(
    members: Iterable[Member], cells: Mapping[tuple[str, str], Cell], recorded: Mapping[str, int] | None = None
) -> Standing:
    """Rate and order the members, and lay out the cells. `recorded` are games outside the run's own, by member."""
    listed = {member.key: member for member in members}
    met = met_members(listed, cells)
    fit = fit_members(listed, met, cells)
    order = sorted(range(len(met)), key=lambda place: (-fit.ratings[place], met[place]))
    fit, ranked = fit.of(order), [met[place] for place in order]
    others, payoffs = sorted(listed.keys() - set(ranked)), _layout(tuple(ranked), cells)
    rows = tuple(
        _row(listed[key], place, fit, payoffs, (recorded or {}).get(key, 0))
        for place, key in enumerate([*ranked, *others])
    )
    return Standing(rows=rows, payoffs=payoffs, fit=fit)


def _row(member: Member, place: int, fit: EloRatings, payoffs: PayoffTable, recorded: int) -> LadderRow:
    is_rated = place < len(fit.ratings)
    return LadderRow(
        rank=place + 1 if is_rated else None,
        policy=member.key,
        kind=member.kind,
        elo=float(fit.ratings[place]) if is_rated else None,
        elo_error=float(fit.errors[place]) if is_rated else None,
        mu=member.rating.mu,
        sigma=member.rating.sigma,
        games=member.games,
        wins=member.wins,
        draws=member.draws,
        losses=member.losses,
        mirror_games=member.mirror_games,
        active=member.active,
        created_step=member.created_step,
        score=payoffs.total_score(place) if is_rated else None,
        recorded=recorded,
    )


def _layout(policies: tuple[str, ...], cells: Mapping[tuple[str, str], Cell]) -> PayoffTable:
    index = {policy: place for place, policy in enumerate(policies)}
    games = np.zeros((len(policies), len(policies)), np.int64)
    score = np.full(games.shape, np.nan)
    mean_return = np.full(games.shape, np.nan)
    for (member, opponent), cell in cells.items():
        if member in index and opponent in index and member != opponent and cell.games:
            place = index[member], index[opponent]
            games[place], score[place], mean_return[place] = cell.games, cell.score, cell.mean_return
    return PayoffTable(policies, tuple(range(1, len(policies) + 1)), games, score, mean_return)
