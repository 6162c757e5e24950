"""Every policy equally often, or only the newest ones: opponents that depend on no payoff.

With all policies it is fictitious self-play; with `newest=1` every learner meets the last policy only (iterated best
response, self-play), with a few it meets recent ones (Bansal et al. 2018). Policies are in the order they joined.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array, checked


def uniform(table: ArrayLike, *, newest: int | None = None) -> list[Array]:
    """One strategy per player; `newest` is how many of its last policies count, all by default."""
    if newest is not None and newest < 1:
        raise LudusError(f"uniform: newest must be at least 1, not {newest}")
    return [_last(count, min(newest or count, count)) for count in checked(table).shape[1:]]


def _last(count: int, newest: int) -> Array:
    weights = np.zeros(count)
    weights[count - newest :] = 1.0 / newest
    return weights
