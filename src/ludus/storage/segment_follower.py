"""Follow a log of segments that another process writes: every segment once, in order, as soon as it is there.

Invariant: the log is only read, and rows are handed out only from segments whose checksum holds. All rows before
`cursor` have been dealt with: taken, or counted in `missed`. What cannot be read may still be on its way (a slow disk,
a copy from another machine), and so may what is missing between two segments: both are waited for until nothing about
them has changed for `settle_s`, and then passed over with a warning.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from ludus.errors import CorruptRecord
from ludus.storage.segment_file import Segment, open_segment, segment_name, segment_starts

log = logging.getLogger(__name__)

SETTLE_S = 5.0
LIST_AGAIN_S = 5.0
"""A change of the directory's time is seen at once; on some shared disks it comes late or not at all."""


class _Suspect(NamedTuple):
    """Something that may still be on its way."""

    start: int
    """Of the segment behind a gap, or of the damaged one."""
    signature: tuple[Any, ...]
    since: float
    unchanged_since: float


class SegmentFollower:
    """The rest of a log from a cursor on: `next`, and `take` when its rows are safe."""

    def __init__(
        self,
        directory: Path,
        cursor: int = 0,
        *,
        settle_s: float = SETTLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.cursor = cursor
        self.missed = 0
        """Rows that were gone or damaged before they could be taken."""
        self.damaged = 0
        """Segments that were passed over because they could not be read."""
        self._settle_s = settle_s
        self._clock = clock
        self._starts: list[int] = []
        self._opened: tuple[Segment, pa.RecordBatch] | None = None
        self._listed: tuple[float, int | None] | None = None
        self._suspect: _Suspect | None = None
        self._is_after_damage = False

    @property
    def is_settling(self) -> bool:
        """Whether `next` found something that may still be on its way, and not for long."""
        return self._suspect is not None and self._clock() - self._suspect.since < self._settle_s

    def next(self) -> tuple[Segment, pa.RecordBatch] | None:
        """The first segment from the cursor on; None while there is none that can be read."""
        self._list_again()
        while (place := bisect_left(self._starts, self.cursor)) < len(self._starts):
            start = self._starts[place]
            if start > self.cursor and not self._may_skip(start):
                return None
            try:
                return self._open(start)
            except CorruptRecord as error:
                if not self._may_pass_over(start, str(error)):
                    return None
        self._suspect = None
        return None

    def take(self, segment: Segment) -> None:
        """The rows of what `next` gave are safe elsewhere."""
        self.cursor = max(self.cursor, segment.end_seq)
        self._is_after_damage = False
        self._opened = None

    def _open(self, start: int) -> tuple[Segment, pa.RecordBatch]:
        if self._opened is None or self._opened[0].first_seq != start:
            # Not mapped: a file that goes away on another machine would take this process with it.
            path = self.directory / segment_name(start)
            self._opened = open_segment(path, log=self.directory.name, is_mapped=False)
        self._suspect = None
        return self._opened

    def _list_again(self) -> None:
        now = self._clock()
        try:
            changed: int | None = self.directory.stat().st_mtime_ns
        except OSError:
            changed = None
        if self._listed is not None and self._listed[1] == changed and now - self._listed[0] < LIST_AGAIN_S:
            return
        self._starts = segment_starts(self.directory)
        self._listed = now, changed

    def _may_skip(self, start: int) -> bool:
        """Whether rows between the cursor and `start` will not come any more."""
        if not self._is_after_damage and not self._has_settled(start, ("gap",)):
            return False
        if self.cursor:  # what was trimmed before anybody followed this log was never waited for
            gone = start - self.cursor
            self.missed += gone
            if not self._is_after_damage:
                log.warning("%s: %d rows before row %d are gone; they were not read", self.directory, gone, start)
        self.cursor = start
        return True

    def _may_pass_over(self, start: int, reason: str) -> bool:
        """Whether a segment that cannot be read will not become whole any more, or has been trimmed."""
        try:
            found = (self.directory / segment_name(start)).stat()
        except FileNotFoundError:
            self._starts.remove(start)
            return True
        if not self._has_settled(start, ("damaged", found.st_size, found.st_mtime_ns)):
            return False
        log.warning("%s is passed over: %s", self.directory / segment_name(start), reason)
        self.damaged += 1
        self.missed += 1  # and the others that it had, when the next segment tells how many
        self.cursor = start + 1
        self._is_after_damage = True
        return True

    def _has_settled(self, start: int, signature: tuple[Any, ...]) -> bool:
        now, before = self._clock(), self._suspect
        since = before.since if before is not None and before.start == start else now
        is_same = before is not None and (before.start, before.signature) == (start, signature)
        unchanged_since = before.unchanged_since if before is not None and is_same else now
        self._suspect = _Suspect(start, signature, since, unchanged_since)
        return now - unchanged_since >= self._settle_s
