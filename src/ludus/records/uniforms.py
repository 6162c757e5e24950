"""Random numbers that depend on (episode seed, ply, seat) alone.

A sampled action must not depend on which other games shared its batch, or a requeued episode would come out
different. So there is no generator to advance: every decision hashes its own coordinates (SplitMix64).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_A = np.uint64(0xBF58476D1CE4E5B9)
MIX_B = np.uint64(0x94D049BB133111EB)
SEAT = np.uint64(0xD1B54A32D192ED03)


def uniforms(seeds: NDArray[np.uint64], plies: NDArray[np.uint64], seats: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Uniform numbers in [0, 1), `[n]`, one for each decision."""
    with np.errstate(over="ignore"):
        x = seeds + (plies + np.uint64(1)) * GOLDEN + seats * SEAT
        x = (x ^ (x >> np.uint64(30))) * MIX_A
        x = (x ^ (x >> np.uint64(27))) * MIX_B
        x = x ^ (x >> np.uint64(31))
    scaled: NDArray[np.float32] = (x >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    return scaled
