"""Elo ratings: from all games at once, in which their order does not matter, and game by game.

The model is Bradley and Terry's: A gets the share `1 / (1 + 10^((R_B - R_A) / 400))` of the points against B. `fit_elo`
maximises its likelihood, a draw being half a win for each, together with one imagined draw (or `prior_draws`) of every
player against one of the mean rating: without it, who never lost would be infinitely good. `update_elo` is the ordinary
rule, `R += K (score - expected)`. Invariant: `fit_elo` depends on the counts alone; its ratings have the mean 1000.

How sure ratings are follows from the curvature of the likelihood. One number for each player cannot explain players who
beat each other in a circle. Where pairs deviate from the model by more than chance, the variance of ratings grows by
Pearson's chi-square over its degrees of freedom (quasi-likelihood), and `pair_spread` says how far pairs lie from what
their ratings say. Draws vary less than the model takes them to: intervals are too wide then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.payoffs.cells import Z95, Cell
from ludus.league.payoffs.empirical_game import EmpiricalGame
from ludus.league.payoffs.normal_form import Array

START = 1000.0
POINTS_PER_NATURAL = 400.0 / float(np.log(10.0))
"""Elo points of one unit of log-odds."""
MOST_STEPS = 200
SMALLEST_STEP = 1e-10
"""In log-odds: Newton's next one would be its square."""
ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class EloRatings:
    """Ratings and how sure they are, in the order of the counts given."""

    ratings: Array
    covariance: Array
    """Of the ratings relative to the mean of all, in squared points. `[n, n]`"""
    pair_spread: float = 0.0
    """Standard deviation of pairs about what their ratings say, beyond chance, in points; 0 if all is transitive."""

    @property
    def errors(self) -> Array:
        """Standard error of each rating relative to the mean of all. `[n]`"""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def gap_variances(self) -> Array:
        """How unsure the log-odds of each pair are before its own games are looked at. `[n, n]`"""
        own = np.diag(self.covariance)
        known = np.maximum(own[:, None] + own[None, :] - 2.0 * self.covariance, 0.0)
        return np.asarray((known + self.pair_spread**2) / POINTS_PER_NATURAL**2)

    def is_apart(self, one: int, other: int) -> bool:
        """Whether the 95 % interval of the difference of two ratings leaves no doubt which is higher."""
        own = self.covariance
        variance = float(own[one, one] + own[other, other] - 2.0 * own[one, other])
        return bool(abs(self.ratings[one] - self.ratings[other]) > Z95 * np.sqrt(max(variance, 0.0)))

    def expected(self, one: int, other: int, *, games: int = 0, score: float = 0.5) -> tuple[float, float, float]:
        """Score of one player against another with the ends of its 95 % interval.

        Args:
            one, other: Places of the two.
            games, score: What the first got in their games so far. They move the expectation as far as pairs deviate
                from ratings at all (`pair_spread`).
        """
        gap = float(self.ratings[one] - self.ratings[other]) / POINTS_PER_NATURAL
        variance, spread = float(self.gap_variances()[one, other]), (self.pair_spread / POINTS_PER_NATURAL) ** 2
        if games and spread:
            shift, kept = _pair_effect(gap, spread, games, score)
            # The more the pair's own games say, the less the ratings matter.
            gap, variance = gap + shift, kept**2 * (variance - spread) + kept * spread
        half = Z95 * variance**0.5
        low, middle, high = (float(_logistic(np.array(gap + offset))) for offset in (-half, 0.0, half))
        return middle, low, high

    def of(self, places: Sequence[int]) -> EloRatings:
        """The players at these places, in this order."""
        covariance = self.covariance[np.ix_(places, places)]
        return EloRatings(ratings=self.ratings[list(places)], covariance=covariance, pair_spread=self.pair_spread)


def expected_score(rating: float, opponent: float) -> float:
    """Share of the points that a player is expected to get."""
    return float(1.0 / (1.0 + 10.0 ** (np.clip(opponent - rating, -1e5, 1e5) / 400.0)))


def update_elo(rating: float, opponent: float, score: float, *, k: float = 16.0) -> tuple[float, float]:
    """Both ratings after one game, in which the first player got `score`: 1, 1/2 or 0."""
    change = k * (score - expected_score(rating, opponent))
    return rating + change, opponent - change


def fit_elo(wins: ArrayLike, draws: ArrayLike | None = None, *, prior_draws: float = 1.0) -> EloRatings:
    """The ratings that explain all games best.

    Args:
        wins: Games that row won against column. `[n, n]`; the diagonal does not count.
        draws: Games that row drew with column, counted from both sides. `[n, n]`, symmetric.
        prior_draws: Imagined draws of each player with one of the mean rating; 0 for plain maximum likelihood, which
            only exists if everybody can be reached from everybody by a chain of wins and draws.
    """
    points = _points(wins, draws)
    if not 0.0 <= prior_draws < np.inf:
        raise LudusError(f"prior_draws must be finite and not negative, not {prior_draws}")
    if prior_draws == 0.0 and not _is_connected(points):
        raise LudusError("without prior_draws, ratings need a chain of wins or draws from every player to every other")
    ratings, curvature = _climb(points, prior_draws)
    dispersion, spread = _excess(points, ratings)
    return EloRatings(
        ratings=START + POINTS_PER_NATURAL * (ratings - ratings.mean()),
        covariance=POINTS_PER_NATURAL**2 * dispersion * _centred_inverse(curvature),
        pair_spread=POINTS_PER_NATURAL * spread,
    )


def results_by_pair(cells: Mapping[tuple[str, str], Cell], policies: Sequence[str]) -> tuple[Array, Array]:
    """Wins and draws of row against column, `[n, n]`, from a pool's `payoffs.by_pair()`."""
    wins, draws = np.zeros((2, len(policies), len(policies)))
    index = {policy: place for place, policy in enumerate(policies)}
    for (member, opponent), cell in cells.items():
        if member in index and opponent in index and member != opponent:
            wins[index[member], index[opponent]] = cell.wins
            draws[index[member], index[opponent]] = cell.draws
    return wins, draws


def results_of_game(game: EmpiricalGame) -> tuple[Array, Array]:
    """Wins and draws of row against column, `[n, n]`, of a game of two players.

    Rows are the first player's policies, then, unless they share a population, the second one's.
    """
    if game.players != 2:
        raise LudusError(f"wins against each other are counted in games of 2 players, not of {game.players}")
    first, second = game.populations.shape
    offset = 0 if game.symmetric else first
    wins, draws = np.zeros((2, offset + second, offset + second))
    for (one, other), cell in game.cells():
        pair = one, offset + other
        wins[pair] += cell.wins[0]
        wins[pair[::-1]] += cell.wins[1]
        drawn = cell.games - cell.wins[0] - cell.wins[1]
        draws[pair] += drawn
        draws[pair[::-1]] += drawn
    return wins, draws


def _points(wins: ArrayLike, draws: ArrayLike | None) -> Array:
    """Points of row against column, `[n, n]`."""
    won = np.array(wins, dtype=np.float64)
    drawn = np.zeros_like(won) if draws is None else np.array(draws, dtype=np.float64)
    if won.ndim != 2 or won.shape[0] != won.shape[1] or won.shape != drawn.shape or not won.size:
        raise LudusError(f"wins and draws are square matrices of one size, not {won.shape} and {drawn.shape}")
    if not (np.isfinite(won) & np.isfinite(drawn) & (won >= 0) & (drawn >= 0)).all():
        raise LudusError("wins and draws are counts of games: finite and not negative")
    if not np.array_equal(drawn, drawn.T):
        raise LudusError("draws are counted from both sides, so their matrix must be symmetric")
    points = won + drawn / 2.0
    np.fill_diagonal(points, 0.0)
    return points


def _climb(points: Array, prior: float) -> tuple[Array, Array]:
    """Newton steps on a concave function: ratings in log-odds, and the curvature there."""
    games = points + points.T
    ratings = np.zeros(len(points))
    value = _log_likelihood(points, ratings, prior)
    for _ in range(MOST_STEPS):
        expected = _logistic(ratings[:, None] - ratings[None, :])
        own = _logistic(ratings)
        slope = (points - games * expected).sum(axis=1) + prior * (0.5 - own)
        weights = games * expected * (1.0 - expected)
        curvature = np.diag(weights.sum(axis=1) + prior * own * (1.0 - own)) - weights
        # Without a prior, ratings are known up to a constant only: the shortest step is the one to take.
        step = np.linalg.solve(curvature, slope) if prior else np.linalg.lstsq(curvature, slope, rcond=None)[0]
        length, least = 1.0, value - ROUNDING * abs(value)
        while (after := _log_likelihood(points, ratings + length * step, prior)) < least and length > SMALLEST_STEP:
            length /= 2.0
        ratings, value = ratings + length * step, after
        if np.abs(length * step).max() <= SMALLEST_STEP * (1.0 + np.abs(ratings).max()):
            break
    return ratings, curvature


def _log_likelihood(points: Array, ratings: Array, prior: float) -> float:
    gaps = ratings[:, None] - ratings[None, :]
    played = -(points * np.logaddexp(0.0, -gaps)).sum()
    imagined = -0.5 * prior * (np.logaddexp(0.0, -ratings) + np.logaddexp(0.0, ratings)).sum()
    return float(played + imagined)


def _logistic(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def _excess(points: Array, ratings: Array) -> tuple[float, float]:
    """Pearson's chi-square over its degrees of freedom, at least 1, and the deviation of pairs that causes it."""
    games = points + points.T
    one, other = np.nonzero(np.triu(games))
    freedom = len(one) - int((games.sum(axis=1) > 0).sum()) + 1
    if freedom < 1 or not len(one):
        return 1.0, 0.0
    expected, count = _logistic(ratings[one] - ratings[other]), games[one, other]
    variance = np.maximum(count * expected * (1.0 - expected), np.finfo(np.float64).tiny)
    excess = max(1.0, float(((points[one, other] - count * expected) ** 2 / variance).sum() / freedom))
    return excess, float(np.sqrt((excess - 1.0) / variance.mean()))


def _pair_effect(gap: float, spread: float, games: int, score: float) -> tuple[float, float]:
    """What a pair's own games add to the log-odds that its ratings give, and the share of its variance that is left."""
    shift = 0.0
    for _ in range(MOST_STEPS):
        share = float(_logistic(np.array(gap + shift)))
        weight = games * share * (1.0 - share)
        step = (games * (score - share) - shift / spread) / (weight + 1.0 / spread)
        shift += min(max(step, -1.0), 1.0)
        if abs(step) < SMALLEST_STEP:
            break
    return shift, 1.0 / (1.0 + weight * spread)


def _centred_inverse(curvature: Array) -> Array:
    """Covariance of the ratings less their mean."""
    centre = np.eye(len(curvature)) - 1.0 / len(curvature)
    return np.asarray(centre @ np.linalg.pinv(curvature) @ centre)


def _is_connected(points: Array) -> bool:
    """Whether everybody got points from a chain that ends at everybody else."""
    reaches = (points > 0) | np.eye(len(points), dtype=bool)
    for _ in range(len(points).bit_length()):
        reaches = reaches @ reaches
    return bool(reaches.all())
