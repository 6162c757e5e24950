"""The new lines of a file that another process, or another thread, appends to and rotates."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ludus.storage.jsonl import rotated

MOST_BYTES = 4_000_000
"""Read at a time; when more has come, the oldest of it is passed over."""


class JsonlTail:
    """Objects that were not there the last time. Lines that are no objects are passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._offset = 0
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """What has come since; the first time, everything that the file holds (at most `MOST_BYTES` of it)."""
        found: list[dict[str, Any]] = []
        try:
            here = os.stat(self._path)
        except OSError:
            return found
        if self._file is not None and here.st_ino != self._file:
            found += self._take(rotated(self._path))  # what came after the last look and before the rotation
            self._offset, self._rest = 0, b""
        self._file = here.st_ino
        if here.st_size < self._offset:
            self._offset, self._rest = 0, b""
        return found + self._take(self._path)

    def _take(self, path: Path) -> list[dict[str, Any]]:
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size - self._offset > MOST_BYTES:
                    self._offset, self._rest = size - MOST_BYTES, b""
                file.seek(self._offset)
                data = file.read(MOST_BYTES)
        except OSError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [record for line in lines if (record := _parse(line)) is not None]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
