"""Files of runs on one node, by content: each travels there once, however many workers of the node ask for it.

Invariant: a file in the cache has the bytes that its name is the hash of. It is bounded; what was used least recently
goes first, which takes nothing from a worker that has its own link to it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ludus.errors import StorageError
from ludus.runtime.ray.hashing import write_hashed
from ludus.runtime.ray.messages import FileMark

MOST_BYTES = 4 * 2**30
MOST_NAMES = 1000
"""Files whose hash is remembered for those who do not know it yet."""


class NodeCache:
    """The cache of this user on this node, shared by all hosts."""

    def __init__(self, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"ludus-cache-{os.getuid()}"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.stat().st_uid != os.getuid():
            raise StorageError(f"{self._folder} belongs to another user")
        self._most_bytes = most_bytes

    def bring(
        self,
        mark: FileMark,
        into: Path,
        fetch: Callable[[], Iterator[bytes | memoryview]],
        learn_hash: Callable[[], str] = str,
    ) -> None:
        """Have a file at `into`; `fetch` gives its bytes if the node does not have them, `learn_hash` what they must
        hash to where the mark does not say so.

        Raises:
            StorageError: what was fetched has another hash.
        """
        while not self._take(mark, into):
            with _alone(self._folder / f"{mark.key or mark.digest}.arriving") as (arriving, file):
                if self._find(mark) is not None:
                    arriving.unlink()
                    continue
                digest = write_hashed(file, fetch())
                if digest != (mark.digest or learn_hash()):
                    arriving.unlink()
                    raise StorageError(f"{mark.name}: what arrived does not match its hash")
                if mark.key:
                    self._name(mark).write_text(digest)
                arriving.rename(self._folder / digest)
                self._make_room()

    def _name(self, mark: FileMark) -> Path:
        """Where it is written what a file hashes to, for whoever does not know it yet."""
        return self._folder / f"{mark.key}.name"

    def _find(self, mark: FileMark) -> Path | None:
        """The file in the cache, if it is there."""
        try:
            cached = self._folder / (mark.digest or self._name(mark).read_text())
            return cached if cached.is_file() and cached.stat().st_size == mark.size else None
        except FileNotFoundError:
            return None

    def _take(self, mark: FileMark, into: Path) -> bool:
        """Link to a file of the cache; False if the cache does not have it."""
        with self._locked():
            cached = self._find(mark)
            if cached is not None:
                os.utime(cached)
                _link(cached, into)
            return cached is not None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make_room(self) -> None:
        """Keep the cache within its bounds."""
        with self._locked():
            self._remove_files()
            names = list(self._folder.glob("*.name"))
            for name in sorted(names, key=lambda path: path.stat().st_mtime)[:-MOST_NAMES]:
                name.unlink()

    def _remove_files(self) -> None:
        files = [(path.stat().st_mtime, path.stat().st_size, path) for path in self._folder.glob("?" * 64)]
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files)[:-1]:
            if total <= self._most_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size


@contextmanager
def _alone(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """An empty file that one process writes at a time; whoever waited for another finds that one's result."""
    while True:
        with path.open("ab", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                file.truncate(0)
                yield path, file
                return


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
