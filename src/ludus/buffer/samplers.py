"""Which rows make the next batch. A sampler is a function in `SAMPLERS`; add one there and to the config.

Invariant: it returns `count` distinct indices into the eligible rows, the most wanted first, and is a pure function of
its arguments. Rows of one group come into a batch together (`choose_groups`): half a group compares with half as many.
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
    """The least used; among those the oldest. Light-MALib's `lulrf`."""
    return np.argsort(rows.usage, kind="stable")[:count]


def least_used_newest(rows: Eligible, count: int, rng: np.random.Generator) -> Indices:
    """The least used; among those the newest. Light-MALib's `lumrf`."""
    newest_first = np.arange(len(rows))[::-1]
    return newest_first[np.argsort(rows.usage[newest_first], kind="stable")][:count]


def prioritised(rows: Eligible, count: int, rng: np.random.Generator) -> Indices:
    """One after the other, each in proportion to its priority to the power of the exponent.

    A race of exponential clocks gives the same distribution as drawing one by one without putting back.
    """
    weights = rows.priority**rows.priority_exponent
    finish = rng.standard_exponential(len(rows)) / weights
    return np.argsort(finish, kind="stable")[:count]


def choose_groups(sampler: Sampler, rows: Eligible, group: Indices, count: int, rng: np.random.Generator) -> Indices:
    """Whole groups, the most wanted first, until there are `count` rows or more. A row with group 0 is one by itself.

    A group is as much used as its most used row, and as important as its rows on average.
    """
    names = np.where(group == 0, -1 - np.arange(len(rows)), group)
    _, first, which, size = np.unique(names, return_index=True, return_inverse=True, return_counts=True)
    # In the order of their oldest rows, as samplers expect.
    order = np.argsort(first, kind="stable")
    place = np.argsort(order, kind="stable")[which]
    size = size[order]
    usage = np.zeros(len(size), rows.usage.dtype)
    np.maximum.at(usage, place, rows.usage)
    units = Eligible(
        usage=usage,
        priority=np.bincount(place, rows.priority) / size,
        priority_exponent=rows.priority_exponent,
    )
    wanted = sampler(units, len(units), rng)
    enough = int(np.searchsorted(np.cumsum(size[wanted]), count)) + 1
    return np.flatnonzero(np.isin(place, wanted[:enough]))


Sampler = Callable[[Eligible, int, np.random.Generator], Indices]

SAMPLERS: dict[str, Sampler] = {
    "uniform": uniform,
    "fifo": fifo,
    "least_used": least_used,
    "least_used_newest": least_used_newest,
    "prioritised": prioritised,
}
