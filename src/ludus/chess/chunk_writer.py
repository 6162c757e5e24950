"""Games into a directory that a loader watches: gzipped chunks, one by one or many in a tar.

Invariants: a file appears under its name whole or not at all. Names carry a number that only grows, also over restarts,
so their order is the order of play. One live process writes under a prefix.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from ludus.errors import ConfigError, RunLocked
from ludus.storage.atomic import ensure_directory, sweep_leftovers, write_bytes
from ludus.storage.lock import RunLock

PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LEVEL = 6
DIGITS = 9


@dataclass(slots=True, kw_only=True)
class ChunkWriter:
    """Writes games: `with ChunkWriter(folder=out, prefix="stockfish") as writer: writer.add(number, records)`."""

    folder: Path
    prefix: str
    games_per_tar: int = 0
    """0 writes each game as a file of its own."""
    games: int = 0
    positions: int = 0
    _waiting: list[tuple[int, bytes]] = field(default_factory=list)
    _lock: RunLock | None = None

    def __enter__(self) -> ChunkWriter:
        if not PREFIX.fullmatch(self.prefix):
            raise ConfigError(f"--prefix {self.prefix!r}: expected letters, digits, _ and -")
        own = self.folder / f".{self.prefix}"
        ensure_directory(own)
        lock = RunLock(own)
        try:
            lock.acquire()
        except RunLocked as error:
            raise ConfigError(f"{error}; give this one another --prefix") from None
        self._lock = lock
        sweep_leftovers(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        if self._lock is not None:
            self._lock.release()

    def first_number(self) -> int:
        """The number after the largest in the directory."""
        name = re.compile(rf"{re.escape(self.prefix)}_(\d{{{DIGITS}}})\.(?:gz|tar)")
        found = [int(match[1]) for path in self.folder.iterdir() if (match := name.fullmatch(path.name))]
        return max(found, default=-1) + 1

    def add(self, number: int, records: bytes, *, positions: int) -> None:
        """Take a game; it is on disk at once, or with the last game of its tar."""
        chunk = gzip.compress(records, LEVEL, mtime=0)
        self.games += 1
        self.positions += positions
        if not self.games_per_tar:
            write_bytes(self._path(number, "gz"), chunk)
            return
        self._waiting.append((number, chunk))
        if len(self._waiting) >= self.games_per_tar:
            self.flush()

    def flush(self) -> None:
        """Write the games that wait for their tar."""
        if not self._waiting:
            return
        games, self._waiting = sorted(self._waiting), []
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for number, chunk in games:
                entry = tarfile.TarInfo(f"{self.prefix}_{number:0{DIGITS}d}.gz")
                entry.size = len(chunk)
                tar.addfile(entry, io.BytesIO(chunk))
        write_bytes(self._path(games[-1][0], "tar"), packed.getvalue())

    def _path(self, number: int, suffix: str) -> Path:
        return self.folder / f"{self.prefix}_{number:0{DIGITS}d}.{suffix}"
