"""Curves of any length in a few hundred points, for screens.

Invariant: the first and the last point are kept as they are, and of every bucket the least and the greatest value, so
that no spike is lost; what is outside the window is cut off before anything is added up, so that a zoom shows more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """A curve: `x`, `low`, `mean` and `high`, each `[N]`, and how many points they stand for."""

    x: Numbers
    low: Numbers
    mean: Numbers
    high: Numbers
    points: int

    @property
    def is_exact(self) -> bool:
        """Whether each is one point."""
        return len(self.x) == self.points


def bucket(x: Numbers, y: Numbers, count: int, low: float | None = None, high: float | None = None) -> Buckets:
    """A curve in at most `count + 2` points. `x` never falls; points that are not finite are left out."""
    keep = np.isfinite(x) & np.isfinite(y)
    if not keep.all():
        x, y = x[keep], y[keep]
    begin = 0 if low is None else max(int(np.searchsorted(x, low, "left")) - 1, 0)  # one more, so that lines go on
    end = len(x) if high is None else min(int(np.searchsorted(x, high, "right")) + 1, len(x))
    x, y = x[begin:end], y[begin:end]
    if len(x) <= count + 2:
        return Buckets(x=x, low=y, mean=y, high=y, points=len(x))
    edges = np.linspace(x[1], x[-2], count + 1)[1:-1]
    starts = np.unique(np.concatenate(([1], np.searchsorted(x[1:-1], edges, "left") + 1)))
    starts = starts[starts < len(x) - 1]
    sizes = np.diff(np.append(starts, len(x) - 1))
    inner_x, inner = x[1:-1], y[1:-1]
    at = starts - 1
    middle = np.add.reduceat(inner_x - x[0], at) / sizes + x[0]
    mean = np.add.reduceat(inner, at) / sizes
    least, greatest = np.minimum.reduceat(inner, at), np.maximum.reduceat(inner, at)
    return Buckets(
        x=_framed(x, middle),
        low=_framed(y, least),
        mean=_framed(y, np.clip(mean, least, greatest)),
        high=_framed(y, greatest),
        points=len(x),
    )


def _framed(values: Numbers, inner: Numbers) -> Numbers:
    """With the first and the last of the values."""
    return np.concatenate((values[:1], inner, values[-1:]))
