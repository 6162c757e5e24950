"""Chance that is the same everywhere and for ever: numpy's legacy generator, whose streams do not change between
versions, so that a run can be resumed after an upgrade.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.records import derive_seed


def generator(seed: int, *path: int | str) -> np.random.RandomState:
    """A generator for a named purpose, independent for every distinct path."""
    word = derive_seed(seed, *path)
    return np.random.RandomState([word % 2**32, word >> 32])


def permutation(count: int, seed: int, *path: int | str) -> NDArray[np.int64]:
    """A random order of `[0, count)`."""
    return generator(seed, *path).permutation(count)


class Epochs:
    """Orders of a set by epoch, of which the newest few are kept: groups of two epochs can be in flight at once."""

    _KEPT = 2

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._seed = seed
        self._orders: dict[int, NDArray[np.int64]] = {}

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The random order of one epoch."""
        if epoch not in self._orders:
            while len(self._orders) >= self._KEPT:
                del self._orders[min(self._orders)]
            self._orders[epoch] = permutation(self._count, self._seed, "epoch", epoch)
        return self._orders[epoch]
