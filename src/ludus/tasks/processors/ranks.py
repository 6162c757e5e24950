"""Ranks between 0 and 1: what makes fields of different units comparable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the other values that are smaller, `[n]`; equal values have equal ranks."""
    if len(values) < 2:
        return np.zeros(len(values))
    smaller = np.searchsorted(np.sort(values), values, side="left")
    return smaller / (len(values) - 1)
