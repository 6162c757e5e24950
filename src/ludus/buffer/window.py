"""The rows a batch may still be made of, by column: the sliding window, without the rows' contents.

Invariant: rows are in the order of their sequence numbers, and a row is here as long as it has uses left and was
neither evicted nor found stale. Memory is bounded by the capacity. Taking rows from the old end costs nothing.

In a checkpoint the live rows are runs of consecutive rows that were used equally often: a window whose rows come and go
in order is a handful of runs, whatever its size. Decoding an encoding gives the same rows, exactly; and nothing that a
resume or an open claim could read is ever trimmed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.storage.segment_file import Segment

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

Runs = list[list[Any]]
"""Rows of `[first sequence number, count, usage, priority]`."""


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


def encode_runs(seq: NDArray[np.int64], usage: NDArray[np.int32], priority: NDArray[np.float64]) -> Runs:
    """Parallel columns `[n]`, ascending by `seq`, as runs."""
    if not len(seq):
        return []
    breaks = (np.diff(seq) != 1) | (np.diff(usage) != 0) | (np.diff(priority) != 0)
    first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    count = np.diff(np.append(first, len(seq)))
    columns = (seq[first].tolist(), count.tolist(), usage[first].tolist(), priority[first].tolist())
    return [list(run) for run in zip(*columns, strict=True)]


def decode_runs(
    runs: Sequence[Sequence[Any]],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """The columns that `encode_runs` was given."""
    first, count, usage, priority = (
        np.array([run[place] for run in runs], kind)
        for place, kind in enumerate((np.int64, np.int64, np.int32, np.float64))
    )
    ends = np.cumsum(count)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - count, count)
    return np.repeat(first, count) + within, np.repeat(usage, count), np.repeat(priority, count)


def encode_rests(seq: NDArray[np.int64], ready: NDArray[np.int64], batches: int) -> Runs:
    """Rows that the batch after `batches` may not have, as runs: first sequence number, count, first batch that may."""
    rests = ready > batches
    zeros = np.zeros(int(rests.sum()))
    runs = encode_runs(seq[rests], ready[rests].astype(np.int32), zeros)
    return [run[:3] for run in runs]


def decode_rests(runs: Sequence[Sequence[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that rest, and until which batch."""
    seq, ready, _ = decode_runs([[*run, 0.0] for run in runs])
    return seq, ready.astype(np.int64)


def first_needed(state: Mapping[str, Any]) -> int:
    """The lowest sequence number that a checkpoint with this buffer state could still read."""
    live = state["live"]
    return int(live[0][0]) if live else int(state["next_seq"])


def trim_point(segments: Sequence[Segment], needed_from: int, keep_bytes: int) -> int:
    """The sequence number before which segments go, so that at most `keep_bytes` of what nobody needs stay."""
    unneeded = [segment for segment in segments if segment.end_seq <= needed_from]
    kept = 0
    for segment in reversed(unneeded):
        kept += segment.size_bytes
        if kept > keep_bytes:
            return segment.end_seq
    return unneeded[0].first_seq if unneeded else needed_from
