"""The durable log of what was refused: `refused/` of a run, rows as they came with the columns `reason` and `detail`.

Invariant: `add` returned = the rows are on disk, each once; adding the same again is a no-op. Nothing is trained from
here, so a resume needs none of it; the oldest make room when there is more than `keep_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ludus.records import Experiences
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog


class RefusedLog:
    """What was refused in one run. One thread of the process that holds the run lock."""

    def __init__(self, run_dir: Path, catalog: Catalog) -> None:
        self._log = SegmentLog(run_dir, "refused", catalog)

    def __len__(self) -> int:
        return len(self._log)

    def add(self, *parts: Experiences) -> int:
        """Keep refused rows with one commit; returns how many were new.

        Raises:
            DiskFull: none was acknowledged; add the same rows again when there is space.
        """
        added = 0
        for rows in parts:
            if len(rows):
                added += len(self._log.append(experiences_to_table(rows)))
        self._log.commit()
        return added

    def tasks(self) -> Iterator[list[int]]:
        """Tasks that have rows here, segment by segment."""
        for _, table in self._log.scan():
            yield table.column("task").to_pylist()

    def trim(self, keep_bytes: int, *, settled_before: int = 0) -> int:
        """Drop the oldest segments until no more than this is kept; returns how many rows went.

        Args:
            settled_before: No task below this number will be played again.
        """
        excess, point = self._log.size_bytes() - keep_bytes, 0
        for segment in self._log.segments()[:-1]:
            if excess <= 0:
                break
            excess -= segment.size_bytes
            point = segment.end_seq
        gone = self._log.trim(point) if point else 0
        if gone and settled_before:
            self._log.settle(settled_before)
        return gone
