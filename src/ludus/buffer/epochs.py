"""In which order the rows of a store come: each once per epoch, in an order that every epoch draws anew.

Invariant: what comes next is a pure function of (seed, cursor), and a cursor is three numbers. Rows that are added in
the course of an epoch join with the next one, so a cursor means the same however many rows there are by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ludus.errors import LudusError
from ludus.records import derive_seed

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a store has been read."""

    epoch: int = -1
    """-1 before the first."""
    position: int = 0
    """Rows of this epoch that have been given out."""
    size: int = 0
    """Rows of this epoch."""


def draw(cursor: Cursor, count: int, *, seed: int, size: int) -> tuple[Places, Cursor]:
    """The next `count` places among `size`, and the cursor behind them; a new epoch begins where one ends.

    Raises:
        LudusError: there is nothing to draw from.
    """
    if not size:
        raise LudusError("there are no rows to draw from")
    parts: list[Places] = []
    while count:
        if cursor.position >= cursor.size:
            cursor = Cursor(epoch=cursor.epoch + 1, size=size)
        part = _order(seed, cursor.epoch, cursor.size)[cursor.position : cursor.position + count]
        parts.append(part)
        count -= len(part)
        cursor = Cursor(epoch=cursor.epoch, position=cursor.position + len(part), size=cursor.size)
    return np.concatenate([np.zeros(0, np.int64), *parts]), cursor


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, size: int) -> Places:
    key = derive_seed(seed, "epoch", epoch)
    order: Places = np.random.Generator(np.random.Philox(key=key)).permutation(size)
    order.flags.writeable = False
    return order
