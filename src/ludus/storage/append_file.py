"""A file that grows by whole records.

Invariant: what is in the file is a sequence of whole records. One that does not fit on the disk is cut off again and
raises; the next is appended where the last whole one ended. Not covered: power loss. Records are handed to the system
at once but not synced.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ludus.storage.filesystem import REAL, FileSystem

_CHUNK = 1 << 16


class AppendFile:
    """Appends to one file; made, with the bytes `start`, when there is something to append."""

    def __init__(self, path: Path, *, start: bytes = b"", end: bytes = b"", fs: FileSystem = REAL) -> None:
        """Its folder must be there by the first `append`.

        Args:
            start: What a new file begins with.
            end: What every record ends with; what a dead process left behind the last of these is cut off.
        """
        self.path = path
        self.size = 0
        self._start = start
        self._end = end
        self._fs = fs
        self._descriptor: int | None = None

    def open(self) -> int:
        """Open the file, or make it, and cut off half a record; returns its descriptor."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = _whole_records(descriptor, self._end)
        os.ftruncate(descriptor, self.size)
        self._descriptor = descriptor
        return descriptor

    def append(self, record: bytes) -> None:
        """Append one record, whole.

        Raises:
            OSError: there is no space, or no such folder; the file is as it was.
        """
        descriptor = self.open() if self._descriptor is None else self._descriptor
        if not self.size:
            record = self._start + record
        written = self._fs.append(descriptor, record)
        if written < len(record):
            os.ftruncate(descriptor, self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self.size += written

    def close(self) -> None:
        """Close the file; the next `append` opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _whole_records(descriptor: int, end: bytes) -> int:
    """Length of the file up to and including its last record, of those that end with one byte."""
    stop = os.fstat(descriptor).st_size
    while end and stop > 0:
        start = max(0, stop - _CHUNK)
        at = os.pread(descriptor, stop - start, start).rfind(end)
        if at >= 0:
            return start + at + 1
        stop = start
    return stop
