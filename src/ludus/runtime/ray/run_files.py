"""The files of a run, for nodes that do not see them: listed, read and written by the connection, on the loop's disk.

Invariant: nothing is read but what lies in the run directory, where its links lead and the files that the config names,
and nothing is written but new files in staging folders, which count only when the loop renames them.
"""

from __future__ import annotations

import logging
import os
from os.path import normpath
from pathlib import Path

from ludus.runtime.ray.messages import PIECE_BYTES, FileAnswer, FileMark, FilesOf, FileWant
from ludus.storage.atomic import sha256_file

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
        self._hashes: dict[tuple[str, int, int], str] = {}

    def answer(self, want: FileWant) -> FileAnswer:
        """Do what is wanted; a problem is told, not raised."""
        try:
            if want.kind == "look":
                return FileAnswer(number=want.number, is_there=self._has(want))
            path = self._find(want)
            if want.kind == "list":
                return self._list(want.number, path)
            if want.kind == "read":
                if not want.offset:
                    log.info("%s leaves for a node", want.name)
                return FileAnswer(number=want.number, data=_read_piece(path, want.offset))
            return self._write(want, path)
        except (OSError, ValueError) as error:
            return FileAnswer(number=want.number, problem=f"{want.name or want.root}: {error}")

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

    def _list(self, number: int, path: Path) -> FileAnswer:
        if path.is_file():
            return FileAnswer(number=number, is_file=True, files=[self._mark(path)])
        if not path.is_dir():
            return FileAnswer(number=number, is_there=False)
        return FileAnswer(number=number, files=[self._mark(file) for file in sorted(path.iterdir()) if file.is_file()])

    def _mark(self, path: Path) -> FileMark:
        found = path.stat()
        key = (str(path), found.st_mtime_ns, found.st_size)
        if key not in self._hashes:
            self._hashes[key] = sha256_file(path)
        return FileMark(name=path.name, size=found.st_size, sha256=self._hashes[key])

    def _write(self, want: FileWant, path: Path) -> FileAnswer:
        """A piece may come twice: it is written where it belongs."""
        if want.root or not path.parent.name.startswith(STAGING) or not path.parent.is_dir():
            raise ValueError("only staging folders of the run are written into")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(file, want.data, want.offset)
            if want.sha256:
                os.ftruncate(file, want.offset + len(want.data))
                os.fsync(file)
        finally:
            os.close(file)
        if want.sha256 and sha256_file(path) != want.sha256:
            raise ValueError("what arrived does not match its hash")
        return FileAnswer(number=want.number)


def _read_piece(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)
