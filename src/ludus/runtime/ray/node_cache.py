"""Files of runs on one node, by content: each travels there once, however many workers of the node ask for it.

Invariant: a file in the cache has the bytes that its name is the hash of. It is bounded; what was used least recently
goes first, which takes nothing from a worker that has its own link to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ludus.errors import StorageError
from ludus.runtime.ray.messages import FileMark

MOST_BYTES = 4 * 2**30


class NodeCache:
    """The cache of this user on this node, shared by all hosts."""

    def __init__(self, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"ludus-cache-{os.getuid()}"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.stat().st_uid != os.getuid():
            raise StorageError(f"{self._folder} belongs to another user")
        self._most_bytes = most_bytes

    def bring(self, mark: FileMark, into: Path, fetch: Callable[[], Iterator[bytes]]) -> None:
        """Have a file at `into`; `fetch` gives its bytes if the node does not have them.

        Raises:
            StorageError: what was fetched has another hash.
        """
        cached = self._folder / mark.sha256
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if cached.is_file() and cached.stat().st_size == mark.size:
                os.utime(cached)
            else:
                self._fetch(mark, cached, fetch())
            _link(cached, into)
            self._make_room()

    def _fetch(self, mark: FileMark, cached: Path, pieces: Iterator[bytes]) -> None:
        digest, arriving = hashlib.sha256(), cached.with_name(f"{cached.name}.arriving")
        with arriving.open("wb") as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != mark.sha256:
            arriving.unlink()
            raise StorageError(f"{mark.name}: what arrived does not match its hash")
        arriving.rename(cached)

    def _make_room(self) -> None:
        files = [(path.stat().st_mtime, path.stat().st_size, path) for path in self._folder.glob("?" * 64)]
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files)[:-1]:
            if total <= self._most_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size


def _link(cached: Path, into: Path) -> None:
    """A link in place of whatever was there; a copy where the two are on different disks."""
    into.parent.mkdir(parents=True, exist_ok=True)
    made = into.with_name(f".{into.name}.arriving")
    made.unlink(missing_ok=True)
    try:
        os.link(cached, made)
    except OSError:
        shutil.copyfile(cached, made)
    made.rename(into)
