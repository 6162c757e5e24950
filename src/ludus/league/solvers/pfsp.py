"""Prioritised fictitious self-play as a meta-solver: policies that do well against the newest ones, more often.

A policy of player k is weighed by f(1 - s): s is its score, in [0, 1], when every other player plays its newest policy,
so that 1 - s is what the learner gets against it. f is one of `PFSP_WEIGHTINGS`. Payoffs become scores by `bounds`:
`(payoff - low) / (high - low)`, cut to [0, 1]. Invariant: the answer is uniform where all weights are 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.matchmaking.pfsp import PFSP_WEIGHTINGS
from ludus.league.payoffs.normal_form import Array, completed, normalised


def pfsp(table: ArrayLike, *, weighting: str = "squared", bounds: tuple[float, float] | None = None) -> list[Array]:
    """One strategy per player; `bounds` are what a lost and a won game pay, by default the table's extremes."""
    if weighting not in PFSP_WEIGHTINGS:
        raise LudusError(f"pfsp: weighting is one of {', '.join(PFSP_WEIGHTINGS)}, not {weighting!r}")
    payoffs = completed(table)
    low, high = bounds or (float(payoffs.min()), float(payoffs.max()))
    if not -np.inf < low <= high < np.inf:
        raise LudusError(f"pfsp: bounds are a lowest and a highest payoff, not {bounds}")
    return [_weighed(_against_newest(payoffs, player), low, high, weighting) for player in range(len(payoffs))]


def _against_newest(payoffs: Array, player: int) -> Array:
    """What each policy of a player gets against the others' newest. `[a_k]`."""
    others = [-1] * (payoffs.ndim - 2)
    return np.asarray(np.moveaxis(payoffs[player], player, 0)[(slice(None), *others)])


def _weighed(values: Array, low: float, high: float, weighting: str) -> Array:
    # Halves, because the range of finite payoffs need not be finite.
    span = high / 2.0 - low / 2.0
    scores = np.clip((values / 2.0 - low / 2.0) / span, 0.0, 1.0) if span > 0 else np.full(values.shape, 0.5)
    return normalised(np.array([PFSP_WEIGHTINGS[weighting](float(1.0 - score)) for score in scores]))
