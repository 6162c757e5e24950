"""The few calls through which ludus changes the file system.

Invariant: nothing else in this room creates, renames or removes a file. That is what lets a test put a disk that is
full, or one that loses power, in place of the real one. SQLite is the exception: it brings its own, tested as hard.
Changes below a directory that a run works in wait while it is read-only (`ludus.storage.read_only`).

To add a call: add it here and to the power-loss model in `tests/faults`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ludus.storage.read_only import patiently

Piece = bytes | bytearray | memoryview
"""Bytes to be written; a memoryview must be contiguous."""

_MOST_PER_WRITE = 1 << 30


class FileSystem:
    """The disk of this machine. All methods raise `OSError` when they fail."""

    def write_file(self, path: Path, pieces: Sequence[Piece]) -> None:
        """Create `path`, which must not exist, with these bytes, and sync them."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = patiently(path, lambda: os.open(path, flags, 0o644))
        try:
            for piece in pieces:
                _write_all(descriptor, piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def append(self, descriptor: int, piece: Piece) -> int:
        """Write at the end of an open file; return how many bytes went in. Not synced."""
        return os.write(descriptor, piece)

    def sync_file(self, path: Path) -> None:
        """Return when the contents of `path` survive a power loss."""
        _sync(path, os.O_RDONLY)

    def sync_directory(self, path: Path) -> None:
        """Return when the names in `path` survive a power loss."""
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def rename(self, source: Path, target: Path) -> None:
        """Give `source` the name `target` in one step, replacing a file of that name."""
        patiently(target, lambda: os.rename(source, target))

    def unlink(self, path: Path) -> None:
        """Remove one file."""
        patiently(path, lambda: os.unlink(path))

    def make_directory(self, path: Path) -> None:
        """Make one directory; its parent exists."""
        patiently(path, lambda: os.mkdir(path))

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and everything in it."""
        patiently(path, lambda: shutil.rmtree(path))

    def free_bytes(self, path: Path) -> int:
        """Space left for ordinary users on the disk that holds `path`."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize


REAL = FileSystem()


def _write_all(descriptor: int, piece: Piece) -> None:
    view = memoryview(piece).cast("B") if len(piece) else memoryview(b"")
    while view:
        view = view[os.write(descriptor, view[:_MOST_PER_WRITE]) :]


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
