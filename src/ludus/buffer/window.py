"""The rows a batch may still be made of, by column: the sliding window, without the rows' contents.

Invariant: rows are in the order of their sequence numbers, and a row is here as long as it has uses left and was
neither evicted nor found stale. Memory is bounded by the capacity. Taking rows from the old end costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS: dict[str, type[np.generic]] = {
    "seq": np.int64,
    "task": np.int64,
    "attempt": np.int64,
    "seat": np.int64,
    "version": np.int64,
    "group": np.int64,
    "usage": np.int32,
    "pending": np.int32,
    "ready": np.int64,
    "priority": np.float64,
}
"""`version` is that of the row's oldest element, -1 for one of another policy; `group` stands for the name of its
group, 0 for none; `pending` counts the open claims it is in; `ready` is the number of the first batch that may have it
again."""


class Window:
    """Columns of all live rows. Views returned by `[name]` are valid until rows are added or removed."""

    def __init__(self, reuse: int, *, rests: bool) -> None:
        """A row may be in `reuse` batches; where it `rests`, not again before the batch that its `ready` names."""
        self._reuse = reuse
        self._rests = rests
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(64, kind) for name, kind in COLUMNS.items()}
        self._start = 0
        self._stop = 0

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name][self._start : self._stop]

    def append(self, **columns: Any) -> None:
        """Add rows at the new end; scalars are repeated."""
        count = len(columns["seq"])
        self._make_room(count)
        for name in COLUMNS:
            self._columns[name][self._stop : self._stop + count] = columns.get(name, 0)
        self._stop += count

    def drop_oldest(self, count: int) -> None:
        """Remove rows from the old end."""
        self._start += count

    def drop(self, doomed: NDArray[np.bool_]) -> None:
        """Remove rows by a mask `[n]`."""
        if not doomed.any():
            return
        kept = np.flatnonzero(~doomed)
        for column in self._columns.values():
            column[: len(kept)] = column[self._start : self._stop][kept]
        self._start, self._stop = 0, len(kept)

    def clear(self) -> None:
        """Remove all rows."""
        self._start = self._stop = 0

    def find(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Indices of those of the given sequence numbers that are still here, in their order."""
        seq = self["seq"]
        places = np.searchsorted(seq, rows)
        here = places < len(seq)
        here[here] = seq[places[here]] == rows[here]
        return places[here]

    def versions_behind(self, version: int) -> NDArray[np.int64]:
        """By row; 0 for rows of another policy, whose versions say nothing about this one's."""
        made_by = self["version"]
        behind: NDArray[np.int64] = np.where(made_by < 0, 0, version - made_by)
        return behind

    def uses_left(self) -> NDArray[np.int32]:
        """Batches that each row may still be in."""
        left: NDArray[np.int32] = self._reuse - self["usage"] - self["pending"]
        return left

    def eligible(self, batch: int) -> NDArray[np.bool_]:
        """Which rows that batch may have: with uses left, and rested since the last."""
        eligible: NDArray[np.bool_] = self.uses_left() > 0
        if self._rests:
            eligible &= (self["ready"] <= batch) & (self["pending"] == 0)
        return eligible

    def _make_room(self, count: int) -> None:
        length = len(self._columns["seq"])
        if self._stop + count <= length:
            return
        needed = len(self) + count
        size = length if 2 * needed <= length else 2 * needed
        for name, column in self._columns.items():
            moved = np.zeros(size, COLUMNS[name])
            moved[: len(self)] = column[self._start : self._stop]
            self._columns[name] = moved
        self._start, self._stop = 0, len(self)
