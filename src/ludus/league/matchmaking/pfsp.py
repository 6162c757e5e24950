"""Weightings of prioritised fictitious self-play: how often an opponent is met, by the share of points won against it.

From AlphaStar (Vinyals et al. 2019). Invariant: weights are finite and not negative for every share in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable

PFSP_WEIGHTINGS: dict[str, Callable[[float], float]] = {
    "squared": lambda x: (1.0 - x) ** 2,
    "variance": lambda x: x * (1.0 - x),
    "linear": lambda x: 1.0 - x,
    "linear_capped": lambda x: min(0.5, 1.0 - x),
}
