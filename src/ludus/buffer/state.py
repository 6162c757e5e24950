"""The live rows of a window as JSON: runs of consecutive rows that were used equally often.

A window whose rows come and go in order is a handful of runs, whatever its size. Invariant: decoding an encoding gives
the same rows, exactly; and nothing that a resume or an open claim could read is ever trimmed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.storage.segment_file import Segment

Runs = list[list[Any]]
"""Rows of `[first sequence number, count, usage, priority]`."""


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
