"""Which rows make the next batch. A sampler is a function in `SAMPLERS`; add one there and to the config.

Invariant: it returns `count` distinct indices into the eligible rows, and is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """Rows that may be chosen, oldest first. All `[n]`."""

    usage: NDArray[np.int32]
    priority: NDArray[np.float64]
    priority_exponent: float

    def __len__(self) -> int:
        return len(self.usage)


def fifo(rows: Eligible, count: int, rng: np.random.Generator) -> Indices:
    """The oldest."""
    return np.arange(count)


def uniform(rows: Eligible, count: int, rng: np.random.Generator) -> Indices:
    """Each with the same chance."""
    return rng.choice(len(rows), size=count, replace=False)


def least_used(rows: Eligible, count: int, rng: np.random.Generator) -> Indices:
    """The least used; among those the oldest."""
    return np.argsort(rows.usage, kind="stable")[:count]


def prioritised(rows: Eligible, count: int, rng: np.random.Generator) -> Indices:
    """One after the other, each in proportion to its priority to the power of the exponent.

    A race of exponential clocks gives the same distribution as drawing one by one without putting back.
    """
    weights = rows.priority**rows.priority_exponent
    finish = rng.standard_exponential(len(rows)) / weights
    return np.argpartition(finish, count - 1)[:count] if count < len(rows) else np.arange(count)


Sampler = Callable[[Eligible, int, np.random.Generator], Indices]

SAMPLERS: dict[str, Sampler] = {
    "uniform": uniform,
    "fifo": fifo,
    "least_used": least_used,
    "prioritised": prioritised,
}
