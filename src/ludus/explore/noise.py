"""Exploration noise on boards: a share of moves that nobody chose.

Invariant: whether a decision is noise and which action it takes depend on (episode seed, ply, seat) alone, as all else
that is drawn in play does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.records.uniforms import uniforms

NOISE, NOISE_CHOICE = 0x6E6F697365, 0x63686F696365
"""Set the random numbers of exploration noise apart from those of the policy."""


def noisy_action(share: float, legal: NDArray[np.bool_], *, seed: int, ply: int, seat: int) -> int | None:
    """A uniformly random legal action for that share of decisions, else None."""
    coordinates = np.array([ply], np.uint64), np.array([seat], np.uint64)
    if uniforms(np.array([seed ^ NOISE], np.uint64), *coordinates)[0] >= share:
        return None
    options = np.flatnonzero(legal)
    draw = uniforms(np.array([seed ^ NOISE_CHOICE], np.uint64), *coordinates)[0]
    return int(options[int(draw * len(options))])
