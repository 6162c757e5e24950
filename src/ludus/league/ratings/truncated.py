"""Moments of a truncated normal, as TrueSkill needs them, finite for every input.

`v` is how far the mean moves and `1 - w` the share of the variance that is left when a unit normal with mean `t` is cut
to what the result allows: above `margin` for a win, within `margin` of 0 for a draw. Invariant: `v` is finite and
`0 <= w < 1`, also where probabilities underflow; the far tails use their asymptotic series.

The distribution function is a fitted one, good to 1.2e-7 of its value: the `trueskill` package uses the same fit unless
told otherwise, and with it our ratings equal the package's to rounding. An exact one changes their sixth digit.
"""

from __future__ import annotations

from math import exp, expm1, pi, sqrt
from statistics import NormalDist

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
