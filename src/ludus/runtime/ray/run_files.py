"""The files of a run, for nodes that do not see them: listed, read and written by the connection, on the loop's disk.

Invariant: nothing is read but what lies in the run directory, where its links lead and the files that the config names,
and nothing is written but new files in staging folders, which count only when the loop renames them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from os.path import normpath
from pathlib import Path
from typing import BinaryIO

from ludus.runtime.node_files import NodeFiles
from ludus.runtime.ray.hashing import FileHashes, hash_file, write_hashed
from ludus.runtime.ray.messages import PIECE_BYTES, FileAnswer, FilesOf, FileWant

log = logging.getLogger(__name__)

STAGING = ".tmp-"
"""How the names of staging folders begin."""


class RunFiles:
    """Answers what hosts want. Used by many threads."""

    def __init__(self, files: FilesOf) -> None:
        self._roots = {name: Path(path).resolve() for name, path in files.outside}
        self._outside = frozenset(self._roots)
        if files.run:
            self._roots[""] = Path(files.run).resolve()
        self._linked = [Path(name).resolve() for name in files.links]
        self._hashes = FileHashes()

    def answer(self, want: FileWant) -> FileAnswer:
        """Do what is wanted; a problem is told, not raised."""
        try:
            if want.kind == "look":
                return FileAnswer(number=want.number, is_there=self._has(want))
            path = self._find(want)
            if want.kind == "list":
                return self._list(want, path)
            if want.kind == "folders":
                return FileAnswer(number=want.number, names=NodeFiles(None).folders(path))
            if want.kind == "read":
                return FileAnswer(number=want.number, data=_read_piece(path, want.offset))
            return _write(want, self.place(want))
        except (OSError, ValueError) as error:
            return FileAnswer(number=want.number, problem=f"{want.name or want.root}: {error}")

    def open(self, want: FileWant) -> tuple[BinaryIO, int]:
        """A file that is wanted, and its size. Raises OSError or ValueError."""
        file = self._find(want).open("rb")
        return file, os.fstat(file.fileno()).st_size

    def place(self, want: FileWant) -> Path:
        """Where a new file may be written. Raises ValueError if it may not."""
        path = self._find(want)
        if want.root or not path.parent.name.startswith(STAGING) or not path.parent.is_dir():
            raise ValueError("only staging folders of the run are written into")
        return path

    def _has(self, want: FileWant) -> bool:
        root = self._root(want.root)
        return root is not None and (root / want.name).is_dir()

    def _root(self, name: str) -> Path | None:
        """Where a root is; None of one that nodes may not have."""
        if name in self._roots:
            return self._roots[name]
        path, run = Path(name).resolve(), self._roots.get("")
        return path if run is not None and path.is_relative_to(run) else None

    def _find(self, want: FileWant) -> Path:
        root = self._root(want.root)
        if root is None:
            raise ValueError("the config names no such file")
        # Links in a folder that the config names are the user's own, as those of the hub's cache to its blobs.
        path = Path(normpath(root / want.name)) if want.root in self._outside else (root / want.name).resolve()
        places = [root] if want.root or want.kind == "write" else [root, *self._linked]
        if not any(path.is_relative_to(place) for place in places):
            raise ValueError("it lies outside of the run")
        return path

    def _list(self, want: FileWant, path: Path) -> FileAnswer:
        if not path.exists():
            return FileAnswer(number=want.number, is_there=False)
        files = [path] if path.is_file() else [file for file in sorted(path.iterdir()) if file.is_file()]
        marks = [self._hashes.mark(file, is_hasty=want.is_hasty) for file in files]
        return FileAnswer(number=want.number, is_file=path.is_file(), files=marks)


def write_new(path: Path, pieces: Iterable[memoryview]) -> str:
    """Write a new file of a staging folder as it comes; returns its hash."""
    with path.open("wb", buffering=0) as file:
        digest = write_hashed(file, pieces)
        os.fsync(file.fileno())
    return digest


def _write(want: FileWant, path: Path) -> FileAnswer:
    """A piece may come twice: it is written where it belongs."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(file, want.data, want.offset)
        if want.digest:
            os.ftruncate(file, want.offset + len(want.data))
            os.fsync(file)
    finally:
        os.close(file)
    if want.digest and hash_file(path) != want.digest:
        raise ValueError("what arrived does not match its hash")
    return FileAnswer(number=want.number)


def _read_piece(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)
