"""Read a segment log by sequence number, from any process, without the catalog.

Invariant: rows are handed out only from segments whose checksum was verified in this process; they are views of the
mapped file, so reading copies nothing. A trainer opens a `SegmentReader` on `experiences/` and is told which numbers
to read; new segments are found by listing the directory again when a number is not known yet.
"""

from __future__ import annotations

import logging
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ludus.errors import CorruptRecord, StorageError
from ludus.records import Experiences, join
from ludus.storage.arrow import experiences_from_batch
from ludus.storage.segment_file import Segment, open_segment, segment_name, segment_starts

log = logging.getLogger(__name__)

SequenceNumbers = NDArray[np.int64] | Sequence[int]


class SegmentReader:
    """The rows of one log, by sequence number. Keeps at most `most_open` segments mapped."""

    def __init__(self, directory: Path, *, most_open: int = 16) -> None:
        self.directory = directory
        self._most_open = most_open
        self._open: OrderedDict[int, tuple[Segment, pa.RecordBatch]] = OrderedDict()
        self._verified: set[int] = set()
        self._starts: list[int] = []
        self.refresh()

    def refresh(self) -> None:
        """List the directory again."""
        self._starts = segment_starts(self.directory)

    def starts(self) -> list[int]:
        """First sequence number of every known segment, ascending."""
        return list(self._starts)

    def segment(self, first_seq: int) -> tuple[Segment, pa.RecordBatch]:
        """The segment that starts at `first_seq`, verified on first use.

        Raises:
            CorruptRecord: it does not match its checksum.
        """
        if first_seq in self._open:
            self._open.move_to_end(first_seq)
            return self._open[first_seq]
        path = self.directory / segment_name(first_seq)
        found = open_segment(path, log=self.directory.name, verify=first_seq not in self._verified)
        self._verified.add(first_seq)
        self._open[first_seq] = found
        while len(self._open) > self._most_open:
            self._open.popitem(last=False)
        return found

    def read_experiences(self, sequence_numbers: SequenceNumbers) -> Experiences:
        """Exactly these rows, in this order; a number may occur more than once.

        Raises:
            StorageError: one of them is not in the log (any more).
        """
        numbers = np.asarray(sequence_numbers, np.int64)
        found = list(self._by_segment(numbers))
        if not found:
            return Experiences.empty()
        whole = join([_pick_experiences(batch, rows) for batch, rows, _ in found])
        order = _restoring_order([positions for _, _, positions in found])
        return whole if order is None else whole.take(order)

    def scan(self) -> Iterator[tuple[int, pa.Table]]:
        """Every segment as (first sequence number, rows), in order."""
        for first_seq in self.starts():
            yield first_seq, pa.Table.from_batches([self.segment(first_seq)[1]])

    def scan_readable(self) -> Iterator[tuple[int, pa.Table]]:
        """Every segment that is whole, newest first; those that are damaged are passed over with a warning."""
        for first_seq in reversed(self.starts()):
            try:
                yield first_seq, pa.Table.from_batches([self.segment(first_seq)[1]])
            except CorruptRecord as error:
                log.warning("passed over: %s", error)

    def add(self, first_seq: int) -> None:
        """Learn of a new segment without listing the directory."""
        self.forget(first_seq)
        insort(self._starts, first_seq)

    def forget(self, first_seq: int) -> None:
        """Unmap a segment that is going away."""
        self._open.pop(first_seq, None)
        self._verified.discard(first_seq)
        if first_seq in self._starts:
            self._starts.remove(first_seq)

    def _find(self, sequence_number: int) -> tuple[Segment, pa.RecordBatch] | None:
        for attempt in range(2):
            at = bisect_right(self._starts, sequence_number) - 1
            found = self.segment(self._starts[at]) if at >= 0 else None
            if found and sequence_number < found[0].end_seq:
                return found
            if attempt == 0:
                self.refresh()
        return None

    def _by_segment(
        self, numbers: NDArray[np.int64]
    ) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64], NDArray[np.int64]]]:
        """Per segment: its rows, the wanted row numbers in it, and where in the request they stand."""
        if _is_run(numbers) and (found := self._find(int(numbers[0]))) and numbers[-1] < found[0].end_seq:
            yield found[1], numbers - found[0].first_seq, np.arange(len(numbers))
            return
        left = np.argsort(numbers, kind="stable")
        while len(left):
            found = self._find(int(numbers[left[0]]))
            if found is None:
                raise StorageError(f"row {numbers[left[0]]} is not in {self.directory}")
            count = int(np.searchsorted(numbers[left], found[0].end_seq))
            positions, left = np.sort(left[:count]), left[count:]
            yield found[1], numbers[positions] - found[0].first_seq, positions


def _restoring_order(positions: list[NDArray[np.int64]]) -> NDArray[np.int64] | None:
    """How to reorder what was read segment by segment into the order of the request; None if it is that already."""
    if len(positions) < 2:
        return None
    joined = np.concatenate(positions)
    return None if bool(np.all(joined[1:] > joined[:-1])) else np.argsort(joined, kind="stable")


def _is_run(rows: NDArray[np.int64]) -> bool:
    return bool(len(rows) and rows[-1] - rows[0] == len(rows) - 1 and np.all(rows[1:] > rows[:-1]))


def _pick_experiences(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> Experiences:
    if _is_run(rows):
        return experiences_from_batch(batch.slice(int(rows[0]), len(rows)))
    return experiences_from_batch(batch).take(rows)  # numpy gathers ragged rows faster than Arrow
