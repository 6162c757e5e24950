"""A durable log of episodes or of rows of experience: immutable Arrow files, group commit, exactly once.

Invariants:
- `commit()` returned = the rows are on disk and survive a power loss. The synced, renamed segment file is what makes
  it so; the catalog row beside it can be rebuilt from the file.
- A row has one sequence number for ever; numbers grow and are never given twice.
- A row whose key was ever in the log is dropped at `append`. Keys of live segments are in memory; those of trimmed
  segments are in the catalog as runs of consecutive tasks, so memory is bounded by what is live.
- What is found torn or rotten at opening is moved to quarantine, counted, and never used.

One process owns a log (it holds the run lock); others read with `SegmentReader`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
from ludus.records import Experiences
from ludus.storage.atomic import ensure_directory, move_to_quarantine, write_bytes
from ludus.storage.catalog import Catalog
from ludus.storage.filesystem import REAL, FileSystem
from ludus.storage.row_keys import RowKeys
from ludus.storage.segment_file import Segment, SegmentEncoder, segment_name
from ludus.storage.segment_reader import SegmentReader, SequenceNumbers

log = logging.getLogger(__name__)

LogName = Literal["episodes", "experiences", "refused", "imports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An acknowledgement: rows `[first_seq, first_seq + rows)` are durable."""

    first_seq: int
    rows: int

    @property
    def end_seq(self) -> int:
        """The first sequence number after these rows."""
        return self.first_seq + self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What opening a log found out of order."""

    adopted: tuple[str, ...] = ()
    """Intact segments that the catalog did not know."""
    quarantined: tuple[str, ...] = ()
    """Segments moved away: torn, rotten or repeating rows."""
    missing: tuple[str, ...] = ()
    """Segments that the catalog knew but that are gone."""
    leftovers: tuple[str, ...] = ()
    """Trimmed segments whose file was still there; removed."""


class SegmentLog:
    """One log of a run. Opening it recovers it; `recovery` says what that found."""

    def __init__(self, run_dir: Path, name: LogName, catalog: Catalog, *, fs: FileSystem = REAL) -> None:
        self.name = name
        self.directory = run_dir / name
        self._catalog = catalog
        self._fs = fs
        ensure_directory(self.directory, fs=fs)
        self._reader = SegmentReader(self.directory)
        self._encoder = SegmentEncoder(name)
        self._segments: dict[int, Segment] = {}
        self._pending: list[pa.RecordBatch] = []
        self._next_seq = 0
        self._trimmed_before = 0
        self._keys = RowKeys(name, catalog)
        self.recovery = self._recover()

    @property
    def next_seq(self) -> int:
        """The number that the next committed row will get."""
        return self._next_seq

    def __len__(self) -> int:
        """Committed rows that are in the log now."""
        return sum(segment.rows for segment in self._segments.values())

    def segments(self) -> list[Segment]:
        """The live segments, oldest first."""
        return [self._segments[first_seq] for first_seq in sorted(self._segments)]

    def size_bytes(self) -> int:
        """Bytes of all live segments."""
        return sum(segment.size_bytes for segment in self._segments.values())

    def append(self, table: pa.Table | pa.RecordBatch) -> NDArray[np.int64]:
        """Buffer rows for the next commit; return the indices of those that are new. Nothing is durable yet."""
        batch = _as_batch(table)
        if batch is None:
            return np.zeros(0, np.int64)
        fresh = self._keys.add_fresh(batch)
        if len(fresh) < batch.num_rows:
            batch = batch.take(pa.array(fresh))
        if len(fresh):
            self._pending.append(batch)
        return fresh

    def commit(self) -> Commit | None:
        """Write everything appended since the last commit; returning is the acknowledgement.

        Raises:
            DiskFull: nothing was acknowledged; the rows stay buffered for another try.
        """
        if not self._pending:
            return None
        segments, position = [], self._next_seq
        for batch in _grouped(self._pending):
            segment, payload = self._encoder.encode(batch, first_seq=position)
            write_bytes(self.directory / segment.file_name, payload, fs=self._fs)
            segments.append(segment)
            position = segment.end_seq
        # Not durable by itself: after a power loss the files above are adopted again.
        with self._catalog.transaction(durable=False):
            self._register(segments)
        done = Commit(first_seq=self._next_seq, rows=position - self._next_seq)
        self._pending.clear()
        self._next_seq = position
        for segment in segments:
            self._segments[segment.first_seq] = segment
            self._reader.add(segment.first_seq)
        return done

    def read_experiences(self, sequence_numbers: SequenceNumbers) -> Experiences:
        """Exactly these rows as numpy columns, in this order."""
        return self._reader.read_experiences(sequence_numbers)

    def scan(self) -> Iterator[tuple[int, pa.Table]]:
        """Every live segment as (first sequence number, rows), in order."""
        return self._reader.scan()

    def trim(self, before_seq: int) -> int:
        """Drop the segments that lie wholly before `before_seq`; return how many rows went.

        Their keys are remembered: appending such a row again is still a no-op.
        """
        doomed = self._readable([segment for segment in self.segments() if segment.end_seq <= before_seq])
        if not doomed:
            return 0
        trimmed_before = max(self._trimmed_before, doomed[-1][0].end_seq)
        with self._catalog.transaction():
            self._keys.store_trimmed([batch for _, batch in doomed])
            self._unregister([segment.first_seq for segment, _ in doomed])
            self._write_log_row(self._next_seq, trimmed_before)
        self._trimmed_before = trimmed_before
        for segment, batch in doomed:
            self._keys.forget(batch)
            del self._segments[segment.first_seq]
            self._reader.forget(segment.first_seq)
            self._fs.unlink(self.directory / segment.file_name)
        return sum(segment.rows for segment, _ in doomed)

    def settle(self, before_task: int) -> None:
        """Promise that no task below `before_task` will be played again: its rows, if they come, are repetitions.

        Keeps the memory of trimmed rows small in a run of any length; calling it is optional.
        """
        with self._catalog.transaction():
            self._keys.settle(before_task)
            self._write_log_row(self._next_seq)

    def reserve(self, next_seq: int) -> None:
        """Never give a number below `next_seq`: for a catalog that was lost while a checkpoint still counts."""
        if next_seq > self._next_seq:
            with self._catalog.transaction():
                self._write_log_row(next_seq)
            self._next_seq = next_seq

    def _recover(self) -> Recovery:
        """Make catalog and files agree."""
        query = "SELECT next_seq, trimmed_before, settled_before FROM logs WHERE name = ?"
        next_seq, self._trimmed_before, settled_before = (*self._catalog.query(query, (self.name,)), (0, 0, 0))[0]
        self._keys.load(settled_before)
        rows = self._catalog.query("SELECT first_seq, first_seq + rows FROM segments WHERE log = ?", (self.name,))
        known = {row[0] for row in rows}
        starts = self._reader.starts()
        leftovers = [start for start in starts if start < self._trimmed_before and start not in known]
        for start in leftovers:
            self._reader.forget(start)
            self._fs.unlink(self.directory / segment_name(start))
        self._next_seq = max([next_seq, *(row[1] for row in rows)])
        adopted, quarantined = [], []
        for start in sorted(set(starts) - set(leftovers)):
            if not self._admit(start, is_known=start in known):
                quarantined.append(start)
            elif start not in known:
                adopted.append(start)
        missing = sorted(known - set(starts))
        with self._catalog.transaction():
            self._register([self._segments[start] for start in adopted])
            self._unregister(missing)
        return self._report(adopted, quarantined, missing, leftovers)

    def _admit(self, start: int, *, is_known: bool) -> bool:
        """Take a file into the log if it is whole and its rows are new; otherwise quarantine it."""
        try:
            segment, batch = self._reader.segment(start)
            last = max(self._segments, default=None)
            if last is not None and self._segments[last].end_seq > start:
                raise CorruptRecord("its sequence numbers overlap those of the segment before")
            if not self._keys.restore(batch, is_known=is_known):
                raise CorruptRecord("it repeats rows that are in the log already")
        except CorruptRecord as error:
            self._quarantine(start, str(error))
            return False
        self._segments[start] = segment
        self._next_seq = max(self._next_seq, segment.end_seq)
        return True

    def _quarantine(self, start: int, reason: str) -> None:
        path = self.directory / segment_name(start)
        self._reader.forget(start)
        moved_to = move_to_quarantine(path, self.directory.parent / "quarantine", reason, fs=self._fs)
        with self._catalog.transaction():
            self._catalog.execute(
                "INSERT INTO quarantined(source, reason, moved_to, created) VALUES(?, ?, ?, ?)",
                (str(path), reason, str(moved_to), time.time()),
            )
            self._unregister([start])

    def _register(self, segments: list[Segment]) -> None:
        now = time.time()
        self._catalog.executemany(
            "INSERT OR REPLACE INTO segments VALUES(?, ?, ?, ?, ?, ?)",
            [(self.name, s.first_seq, s.rows, s.size_bytes, s.checksum, now) for s in segments],
        )

    def _unregister(self, starts: Sequence[int]) -> None:
        rows = [(self.name, start) for start in starts]
        self._catalog.executemany("DELETE FROM segments WHERE log = ? AND first_seq = ?", rows)
        self._write_log_row(self._next_seq)

    def _write_log_row(self, next_seq: int, trimmed_before: int | None = None) -> None:
        before = self._trimmed_before if trimmed_before is None else trimmed_before
        row = (self.name, next_seq, before, self._keys.settled_before)
        self._catalog.execute("INSERT OR REPLACE INTO logs VALUES(?, ?, ?, ?)", row)

    def _readable(self, segments: list[Segment]) -> list[tuple[Segment, pa.RecordBatch]]:
        """Their rows; a segment that has rotted since it was written goes to the quarantine instead."""
        readable = []
        for segment in segments:
            try:
                readable.append(self._reader.segment(segment.first_seq))
            except CorruptRecord as error:
                del self._segments[segment.first_seq]
                self._quarantine(segment.first_seq, str(error))
        return readable

    def _report(self, adopted: list[int], quarantined: list[int], missing: list[int], left: list[int]) -> Recovery:
        names = [tuple(map(segment_name, starts)) for starts in (adopted, quarantined, missing, left)]
        found = Recovery(adopted=names[0], quarantined=names[1], missing=names[2], leftovers=names[3])
        if missing:
            log.error("%s: %d segments are gone: %s", self.directory, len(missing), ", ".join(found.missing))
        if adopted:
            log.info("%s: adopted %d segments that the catalog did not know", self.directory, len(adopted))
        return found


def _as_batch(table: pa.Table | pa.RecordBatch) -> pa.RecordBatch | None:
    if isinstance(table, pa.Table):
        batches = table.to_batches()
        if len(batches) > 1:
            batches = table.combine_chunks().to_batches()
        table = batches[0] if batches else None
    return table if table is not None and table.num_rows else None


def _grouped(pending: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Neighbours of one schema put together; the order of the rows stays."""
    groups: list[list[pa.RecordBatch]] = []
    for batch in pending:
        if groups and groups[-1][0].schema.equals(batch.schema, check_metadata=True):
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return [pa.concat_batches(group) if len(group) > 1 else group[0] for group in groups]
