"""A file that grows by whole records.

Invariant: what is in the file is a sequence of whole records. One that does not fit on the disk is cut off again and
raises; the next is appended where the last whole one ended. Not covered: power loss, as in `jsonl.py`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ludus.storage.filesystem import REAL, FileSystem


class AppendFile:
    """Appends to one new file; made, with its first bytes, when there is something to append."""

    def __init__(self, path: Path, *, start: bytes = b"", fs: FileSystem = REAL) -> None:
        """A file that begins with the bytes `start`. Its folder must be there by the first `append`."""
        self.path = path
        self._start = start
        self._fs = fs
        self._descriptor: int | None = None
        self._size = 0

    def append(self, record: bytes) -> None:
        """Append one record, whole.

        Raises:
            OSError: there is no space, or no such folder; the file is as it was.
        """
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if not self._size:
            record = self._start + record
        written = self._fs.append(self._descriptor, record)
        if written < len(record):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += written

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
