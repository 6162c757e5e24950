"""Which match to play next: the one that is expected to make a payoff table most certain where it matters.

A further match of a profile with n games brings the uncertainty of its mean from e to e sqrt(n / (n + 1)), if it
deviates as much as those before it (and from no games to one, by the same rule, as if half a one had been played). The
worth of a match is that reduction times

    (1 - explore) max over players k of P(others play their part of the profile) + explore

P is of the meta-strategy: what decides whether a player should deviate is what its policies get against those the
others do play. So a new policy meets first whom it would be measured against, and pairs that nobody plays wait.
Invariant: the plan is a function of the table, the strategy and what is pending; no match is planned whose payoff is
known well enough.

A league has ratings instead of a meta-strategy: `plan_rated_games` plans the games that make the scores of all pairs
most certain, given ratings and results so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ludus.errors import LudusError
from ludus.league.payoffs.empirical_game import EmpiricalGame, Profile, evidence
from ludus.league.payoffs.normal_form import Array, seatings, symmetrised
from ludus.league.ratings.elo import POINTS_PER_NATURAL, EloRatings

LEAST_SPREAD = 100.0
"""Elo points by which a pair may differ from its ratings before it has met, even if all others agree with theirs."""
Seats = tuple[str, ...]
"""Name of the policy in each seat."""


def plan_matches(
    game: EmpiricalGame,
    count: int = 1,
    *,
    joint: Array | None = None,
    tolerance: float = 0.0,
    field: str = "payoff",
    explore: float = 0.05,
    pending: Mapping[Seats, int] | None = None,
) -> list[Seats]:
    """The next matches, most telling first; fewer than `count` once everything is known well enough.

    Args:
        game: What is known so far.
        count: Matches at most; each is planned as if those before it had been played.
        joint: The meta-strategy over profiles, `[a1, ..., an]`, as `solve_joint` gives it; by default all profiles
            matter alike. It may be smaller than the table: policies that joined since then have probability 0.
        tolerance: A payoff is known well enough once it was measured and its uncertainty is at most this.
        field: The field whose uncertainty counts.
        explore: Share of attention for profiles that nobody plays.
        pending: Matches that are under way, by seats: they count as played.
    """
    if not 0.0 <= explore <= 1.0 or not tolerance >= 0.0:
        raise LudusError(f"explore must be in [0, 1] and tolerance at least 0, not {explore} and {tolerance}")
    planner = _Planner(game, _attention(game, joint, explore), tolerance, field)
    for seats, times in (pending or {}).items():
        planner.count(game.populations.profile(seats), times)
    planned: list[Seats] = []
    while len(planned) < count and (profile := planner.best()) is not None:
        planner.count(profile, 1)
        planned.append(game.populations.seats(profile))
    return planned


def plan_rated_games(fit: EloRatings, games: Array, count: int, *, block: int) -> dict[tuple[int, int], int]:
    """Further games by pair of members: those that reduce the variance of the scores of all pairs most.

    Ratings give a pair's log-odds with variance v, and each of its games adds p (1 - p) to their precision 1 / v.

    Args:
        fit: Ratings of the members.
        games: Games of each pair so far. `[n, n]`
        count: Games to plan; the last block may be smaller.
        block: Games that are planned for a pair at once, such that each plays every seat.
    """
    weight, precision = _pair_precision(fit, games)
    # Each pair once: below the diagonal nothing is worth a game.
    scale = np.triu(weight**2, k=1)
    planned: dict[tuple[int, int], int] = {}
    while (left := count - sum(planned.values())) > 0 and scale.any():
        size = min(block, left)
        worth = scale * (1.0 / precision - 1.0 / (precision + size * weight))
        one, other = (int(place) for place in np.unravel_index(int(np.argmax(worth)), worth.shape))
        precision[one, other] += size * weight[one, other]
        planned[one, other] = planned.get((one, other), 0) + size
    return planned


def score_errors(fit: EloRatings, games: Array) -> Array:
    """Standard error of the score of each pair, from ratings and its own games. `[n, n]`"""
    weight, precision = _pair_precision(fit, games)
    return np.asarray(weight / np.sqrt(precision))


def _pair_precision(fit: EloRatings, games: Array) -> tuple[Array, Array]:
    """What one game adds to the precision of a pair's log-odds, and their precision with all games so far. `[n, n]`"""
    share = 1.0 / (1.0 + np.exp((fit.ratings[None, :] - fit.ratings[:, None]) / POINTS_PER_NATURAL))
    weight = share * (1.0 - share)
    doubted = replace(fit, pair_spread=max(fit.pair_spread, LEAST_SPREAD))
    return weight, 1.0 / doubted.gap_variances() + games * weight


class _Planner:
    """Uncertainties as they will be once the planned matches are played."""

    def __init__(self, game: EmpiricalGame, attention: Array, tolerance: float, field: str) -> None:
        self._symmetric = game.symmetric
        self._tolerance = tolerance
        self._attention = attention
        self._games = game.games()
        # The variance of one game; that of a mean over n games is an nth of it. 0 where the mean is exact.
        self._variance = game.seat_errors(field) ** 2 * evidence(self._games)
        self._worth = np.zeros(attention.shape)
        if attention.size:
            self._refresh([list(range(count)) for count in attention.shape])

    def best(self) -> Profile | None:
        """The profile that is worth most, the first of several; None if nothing is worth a match."""
        if not self._worth.any():
            return None
        place = np.unravel_index(int(np.argmax(self._worth)), self._worth.shape)
        return tuple(int(index) for index in place)

    def count(self, profile: Profile, times: int) -> None:
        """Take matches as played."""
        self._games[profile] += times
        # Other seatings of the same policies share a payoff in a symmetric game.
        self._refresh([sorted({*profile})] * len(profile) if self._symmetric else [[index] for index in profile])

    def _refresh(self, block: Sequence[Sequence[int]]) -> None:
        """Work out anew what matches among these policies of each player are worth."""
        cut, players = np.ix_(*block), range(len(self._variance))
        variance, games = self._variance[np.ix_(players, *block)], self._games[cut]
        squares = variance / evidence(games)
        gain = squares - variance / (games + 1)
        played = np.broadcast_to(games, variance.shape).astype(np.float64)
        if self._symmetric:
            count = seatings(games.shape)
            squares, gain, played = symmetrised(squares) / count, gain / count**2, symmetrised(played)
        errors = np.sqrt(squares)
        reduction = (errors - np.sqrt(np.maximum(squares - gain, 0.0))).max(axis=0)
        is_settled = (played[0] > 0) & (errors.max(axis=0) <= self._tolerance)
        self._worth[cut] = np.where(is_settled, 0.0, self._attention[cut] * reduction)


def _attention(game: EmpiricalGame, joint: Array | None, explore: float) -> Array:
    """How much each profile matters. `[a1, ..., an]`."""
    shape = game.populations.shape
    if joint is None:
        return np.ones(shape)
    if joint.ndim != len(shape) or any(given > known for given, known in zip(joint.shape, shape, strict=True)):
        raise LudusError(f"the meta-strategy is over {joint.shape} policies, but the table has {shape}")
    whole = np.zeros(shape)
    whole[tuple(slice(count) for count in joint.shape)] = joint
    others = [np.broadcast_to(whole.sum(axis=player, keepdims=True), shape) for player in range(whole.ndim)]
    return np.asarray((1.0 - explore) * np.max(others, axis=0) + explore)
