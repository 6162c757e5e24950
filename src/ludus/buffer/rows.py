"""What the buffer knows of a row without its contents: whose it is and how old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ludus.records import Experiences
from ludus.storage.arrow import experiences_from_table

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """Parallel columns, `[n]`, in the order of the sequence numbers."""

    seq: Integers
    task: Integers
    attempt: Integers
    seat: Integers
    """The place in the episode: the seat, and the turn where rows are turns."""
    version: Integers
    """Version of the row's oldest element that a policy chose."""

    def take(self, rows: Integers, *, first_seq: int) -> RowFacts:
        """Some rows, numbered anew from `first_seq` on."""
        return RowFacts(
            seq=first_seq + np.arange(len(rows)),
            task=self.task[rows],
            attempt=self.attempt[rows],
            seat=self.seat[rows],
            version=self.version[rows],
        )

    def where(self, wanted: NDArray[np.bool_]) -> RowFacts:
        """The rows of a mask `[n]`."""
        return RowFacts(
            seq=self.seq[wanted],
            task=self.task[wanted],
            attempt=self.attempt[wanted],
            seat=self.seat[wanted],
            version=self.version[wanted],
        )


def facts_of(experiences: Experiences, first_seq: int = 0) -> RowFacts:
    """The facts of rows that are numbered from `first_seq` on."""
    columns = experiences.sequences
    return RowFacts(
        seq=first_seq + np.arange(len(experiences)),
        task=np.asarray(columns["task"], np.int64),
        attempt=np.asarray(columns["attempt"], np.int64),
        seat=experiences.places,
        version=oldest_versions(experiences),
    )


def facts_of_table(table: pa.Table, first_seq: int) -> RowFacts:
    """The facts of a segment's rows; reads no other column than it must."""
    names = [name for name in ("task", "attempt", "seat", "turn", "mask", "version") if name in table.column_names]
    return facts_of(experiences_from_table(table.select(names)), first_seq)


def oldest_versions(experiences: Experiences) -> Integers:
    """Lowest version among the chosen elements of each row, `[n]`; 0 for a row without any."""
    chosen: NDArray[Any] = experiences.steps["mask"]
    positions = np.flatnonzero(chosen)
    before = np.searchsorted(positions, experiences.offsets)
    rows = np.flatnonzero(before[1:] > before[:-1])
    oldest = np.zeros(len(experiences), np.int64)
    if len(rows):
        oldest[rows] = np.minimum.reduceat(experiences.steps["version"][positions], before[:-1][rows])
    return oldest
