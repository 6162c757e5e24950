"""Meta-solvers that solve nothing: opponents by when they joined, or by their score against the newest policies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.matchmaking.opponents import PFSP_WEIGHTINGS
from ludus.league.payoffs.normal_form import Array, checked, completed, normalised


def uniform(table: ArrayLike, *, newest: int | None = None) -> list[Array]:
    """Every policy equally often, or only the last `newest` of each player, in the order they joined.

    With all policies it is fictitious self-play; with `newest=1` every learner meets the last policy only (iterated
    best response, self-play), with a few it meets recent ones (Bansal et al. 2018).
    """
    if newest is not None and newest < 1:
        raise LudusError(f"uniform: newest must be at least 1, not {newest}")
    counts = [(count, min(newest or count, count)) for count in checked(table).shape[1:]]
    return [np.repeat([0.0, 1.0 / last], [count - last, last]) for count, last in counts]


def pfsp(table: ArrayLike, *, weighting: str = "squared", bounds: tuple[float, float] | None = None) -> list[Array]:
    """Prioritised fictitious self-play: policies that do well against the newest ones, more often.

    A policy of player k is weighed by f(1 - s): s is its score, in [0, 1], when every other player plays its newest
    policy, so that 1 - s is what the learner gets against it. f is one of `PFSP_WEIGHTINGS`. `bounds` are what a lost
    and a won game pay, by default the table's extremes: a payoff scores `(payoff - low) / (high - low)`, cut to [0, 1].
    Uniform where all weights are 0.
    """
    if weighting not in PFSP_WEIGHTINGS:
        raise LudusError(f"pfsp: weighting is one of {', '.join(PFSP_WEIGHTINGS)}, not {weighting!r}")
    payoffs = completed(table)
    low, high = bounds or (float(payoffs.min()), float(payoffs.max()))
    if not -np.inf < low <= high < np.inf:
        raise LudusError(f"pfsp: bounds are a lowest and a highest payoff, not {bounds}")
    newest = (-1,) * (len(payoffs) - 1)
    against_newest = [np.moveaxis(own, player, 0)[(slice(None), *newest)] for player, own in enumerate(payoffs)]
    return [_weighed(values, low, high, weighting) for values in against_newest]


def _weighed(values: Array, low: float, high: float, weighting: str) -> Array:
    # Halves, because the range of finite payoffs need not be finite.
    span = high / 2.0 - low / 2.0
    scores = np.clip((values / 2.0 - low / 2.0) / span, 0.0, 1.0) if span > 0 else np.full(values.shape, 0.5)
    return normalised(np.array([PFSP_WEIGHTINGS[weighting](float(1.0 - score)) for score in scores]))
