"""TrueSkill: skill as a normal belief, updated from who beat whom.

Two players have a closed form; more are a chain of neighbours in the order of finish, solved by passing messages until
no difference moves by more than `TOLERANCE` (at most `SWEEPS` sweeps: the schedule of the `trueskill` package, so that
the numbers are the same). Every player is a side of its own; teams are not covered.

`v` is how far the mean moves and `1 - w` the share of the variance that is left when a unit normal with mean `t` is cut
to what the result allows: above `margin` for a win, within `margin` of 0 for a draw. Invariant: `v` is finite and
`0 <= w < 1`, also where probabilities underflow; the far tails use their asymptotic series. The distribution function
is a fitted one, good to 1.2e-7 of its value: the `trueskill` package uses the same fit unless told otherwise, and with
it our ratings equal the package's to rounding. An exact one changes their sixth digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, expm1, inf, pi, sqrt
from statistics import NormalDist

import numpy as np

from ludus.config import TrueSkillConfig

SWEEPS = 10
TOLERANCE = 1e-4
_ROOT_2 = sqrt(2.0)
_DENSITY_AT_0 = 1.0 / sqrt(2.0 * pi)
_FIT = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
"""Chebyshev fit of the complementary error function (Press et al., Numerical Recipes, `erfcc`)."""
_FAR = 15.0
"""Beyond this many standard deviations the series is more exact than the quotient of two tiny numbers."""
_NARROW = 1e-3
"""Below this half-width an interval is as good as a point: the next terms are of the order of its square."""
_MOST = 1.0 - 1e-12

Message = tuple[float, float]
"""A normal by its precision and precision-weighted mean; `(0, 0)` says nothing."""


@dataclass(frozen=True, slots=True)
class Rating:
    """What is believed of a player's skill."""

    mu: float
    sigma: float


class TrueSkill:
    """The rating rules of one league. Stateless."""

    def __init__(self, config: TrueSkillConfig | None = None) -> None:
        self.config = config or TrueSkillConfig()
        self._tau_square = self.config.tau**2
        self._beta_square = self.config.beta**2
        self._margin = quantile((self.config.draw_probability + 1.0) / 2.0) * sqrt(2.0) * self.config.beta

    def start(self) -> Rating:
        """The rating of a player about whom nothing is known."""
        return Rating(self.config.mu, self.config.sigma)

    def rate_1v1(self, winner: Rating, loser: Rating, *, drawn: bool = False) -> tuple[Rating, Rating]:
        """New ratings of both after one game."""
        variance_w = winner.sigma**2 + self._tau_square
        variance_l = loser.sigma**2 + self._tau_square
        total = variance_w + variance_l + 2.0 * self._beta_square
        scale = sqrt(total)
        moments = draw_moments if drawn else win_moments
        v, w = moments((winner.mu - loser.mu) / scale, self._margin / scale)
        return (
            Rating(winner.mu + variance_w / scale * v, sqrt(variance_w * (1.0 - variance_w / total * w))),
            Rating(loser.mu - variance_l / scale * v, sqrt(variance_l * (1.0 - variance_l / total * w))),
        )

    def rate(self, ratings: Sequence[Rating], ranks: Sequence[float]) -> list[Rating]:
        """New ratings, in the order given, of players who finished at `ranks` (lower is better, equal is a draw)."""
        order = sorted(range(len(ratings)), key=ranks.__getitem__)
        if len(order) < 2:
            return list(ratings)
        if len(order) == 2:
            first, second = order
            pair = self.rate_1v1(ratings[first], ratings[second], drawn=ranks[first] == ranks[second])
            return list(pair) if first == 0 else [pair[1], pair[0]]
        drawn = [ranks[a] == ranks[b] for a, b in pairwise(order)]
        rated: list[Rating] = list(ratings)
        for position, message in enumerate(self._solve_chain([ratings[i] for i in order], drawn)):
            rated[order[position]] = self._absorb(ratings[order[position]], message)
        return rated

    def quality(self, ratings: Sequence[Rating]) -> float:
        """How even a game of these players is, in (0, 1]: the likelihood of a draw relative to that of equals."""
        if len(ratings) == 2:
            first, second = ratings
            noise = 2.0 * self._beta_square
            total = noise + first.sigma**2 + second.sigma**2
            return sqrt(noise / total) * exp(-((first.mu - second.mu) ** 2) / (2.0 * total))
        means = np.array([rating.mu for rating in ratings])
        variances = np.array([rating.sigma**2 for rating in ratings])
        compare = np.eye(len(ratings))[:-1] - np.eye(len(ratings), k=1)[:-1]
        noise_matrix = self._beta_square * (compare @ compare.T)
        total_matrix = noise_matrix + (compare * variances) @ compare.T
        gaps = compare @ means
        evenness = np.exp(-0.5 * gaps @ np.linalg.solve(total_matrix, gaps))
        return float(evenness * np.sqrt(np.linalg.det(noise_matrix) / np.linalg.det(total_matrix)))

    def win_probability(self, player: Rating, opponent: Rating) -> float:
        """Chance that `player` performs better than `opponent`."""
        spread = sqrt(2.0 * self._beta_square + player.sigma**2 + opponent.sigma**2)
        return probability_below((player.mu - opponent.mu) / spread)

    def _solve_chain(self, ratings: Sequence[Rating], drawn: Sequence[bool]) -> list[Message]:
        """What the result says of each player's performance; players in the order of finish."""
        precisions = [1.0 / (rating.sigma**2 + self._tau_square + self._beta_square) for rating in ratings]
        performances = [(each, each * rating.mu) for each, rating in zip(precisions, ratings, strict=True)]
        chain = _Chain(performances, drawn, self._margin)
        last = len(drawn) - 1
        for _ in range(SWEEPS):
            moved = 0.0
            for link in range(last):
                moved = max(moved, chain.compare(link))
                chain.tell_lower(link)
            for link in range(last, 0, -1):
                moved = max(moved, chain.compare(link))
                chain.tell_upper(link)
            if moved <= TOLERANCE:
                break
        chain.tell_upper(0)
        chain.tell_lower(last)
        return [_product(a, b) for a, b in zip(chain.from_above, chain.from_below, strict=True)]

    def _absorb(self, rating: Rating, message: Message) -> Rating:
        """Multiply the belief by what a noisy performance says of it."""
        damping = 1.0 / (1.0 + self._beta_square * message[0])
        precision = 1.0 / (rating.sigma**2 + self._tau_square)
        total = precision + damping * message[0]
        return Rating((precision * rating.mu + damping * message[1]) / total, sqrt(1.0 / total))


class _Chain:
    """Messages along the order of finish. Link `i` compares player `i` with player `i + 1`, who finished no better."""

    def __init__(self, performances: list[Message], drawn: Sequence[bool], margin: float) -> None:
        self._performances = performances
        self._drawn = drawn
        self._margin = margin
        self._differences: list[Message] = [(0.0, 0.0)] * len(drawn)
        self.from_above: list[Message] = [(0.0, 0.0)] * len(performances)
        self.from_below: list[Message] = [(0.0, 0.0)] * len(performances)

    def compare(self, link: int) -> float:
        """Cut the difference of a link to what the result allows; return how far that moved the belief in it."""
        upper, lower = self._upper(link), self._lower(link)
        precision = 1.0 / (1.0 / upper[0] + 1.0 / lower[0])
        weighted = precision * (upper[1] / upper[0] - lower[1] / lower[0])
        root = sqrt(precision)
        moments = draw_moments if self._drawn[link] else win_moments
        v, w = moments(weighted / root, self._margin * root)
        cut = precision / (1.0 - w), (weighted + root * v) / (1.0 - w)
        before = _product((precision, weighted), self._differences[link])
        self._differences[link] = cut[0] - precision, cut[1] - weighted
        return max(abs(before[1] - cut[1]), sqrt(abs(before[0] - cut[0])))

    def tell_lower(self, link: int) -> None:
        """Tell the player below what the one above and the result say of it."""
        self.from_above[link + 1] = _combine(self._upper(link), self._differences[link], -1.0)

    def tell_upper(self, link: int) -> None:
        """Tell the player above what the one below and the result say of it."""
        self.from_below[link] = _combine(self._lower(link), self._differences[link], 1.0)

    def _upper(self, link: int) -> Message:
        return _product(self._performances[link], self.from_above[link])

    def _lower(self, link: int) -> Message:
        return _product(self._performances[link + 1], self.from_below[link + 1])


def _product(a: Message, b: Message) -> Message:
    return a[0] + b[0], a[1] + b[1]


def _combine(player: Message, difference: Message, sign: float) -> Message:
    """The sum (`sign` 1) or difference (-1) of two independent normals."""
    if difference[0] <= 0.0:
        return 0.0, 0.0
    precision = 1.0 / (1.0 / player[0] + 1.0 / difference[0])
    mean = player[1] / player[0] + sign * difference[1] / difference[0]
    return (precision, precision * mean) if precision < inf else (0.0, 0.0)


def density(x: float) -> float:
    """Density of the unit normal."""
    return _DENSITY_AT_0 * exp(-0.5 * x * x)


def probability_below(x: float) -> float:
    """Distribution function of the unit normal; its relative error is small in the lower tail too."""
    z = abs(x) / _ROOT_2
    t = 1.0 / (1.0 + 0.5 * z)
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 = _FIT
    series = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * (c5 + t * (c6 + t * (c7 + t * (c8 + t * c9))))))))
    tail = 0.5 * t * exp(series - z * z)
    return tail if x < 0 else 1.0 - tail


def quantile(probability: float) -> float:
    """Inverse of `probability_below`, for probabilities of at least a half."""
    x = NormalDist().inv_cdf(probability)
    for _ in range(2):
        x -= (probability_below(x) - probability) / density(x)
    return max(x, 0.0)


def win_moments(t: float, margin: float) -> tuple[float, float]:
    """`(v, w)` when the difference is known to be above `margin`."""
    x = t - margin
    if x < -_FAR:
        square = 1.0 / (x * x)
        return -x * (1.0 + square * (1.0 - square * (2.0 - 10.0 * square))), 1.0 - square * (1.0 - 6.0 * square)
    v = density(x) / probability_below(x)
    return v, min(max(v * (v + x), 0.0), _MOST)


def draw_moments(t: float, margin: float) -> tuple[float, float]:
    """`(v, w)` when the difference is known to be within `margin` of 0."""
    if margin < _NARROW:
        return -t, min(1.0 - margin * margin / 3.0, _MOST)
    sign = -1.0 if t < 0 else 1.0
    high, low = margin - abs(t), -margin - abs(t)
    if high < -_FAR:
        v, w = _far_interval_moments(-high, 2.0 * margin)
        return sign * v, w
    mass = probability_below(high) - probability_below(low)
    v = (density(low) - density(high)) / mass
    w = v * v + (high * density(high) - low * density(low)) / mass
    return sign * v, min(max(w, 0.0), _MOST)


def _far_interval_moments(distance: float, width: float) -> tuple[float, float]:
    """Moments in an interval that starts `distance` out in the tail, where the density falls like an exponential."""
    mean, variance = 1.0 / distance, 1.0 / (distance * distance)
    if distance * width < 500.0:
        rest = width / expm1(distance * width)
        mean -= rest
        variance -= rest * (rest + width)
    return -distance - mean, min(max(1.0 - variance, 0.0), _MOST)
