"""Append-only JSON lines: metrics and events.

Invariant: every complete line is one JSON object; NaN and infinities are written as null. A write that fails costs its
own line and nothing else: the file is cut back to its last whole line, the loss is counted, and the caller goes on.
The file is rotated by size (`metrics.jsonl` -> `metrics.1.jsonl`), so two files bound the space.

Not covered: power loss. Lines are handed to the system at once but not synced; nothing that matters is only here.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np

from ludus.storage.filesystem import REAL, FileSystem

log = logging.getLogger(__name__)

_MOST_BYTES = 64_000_000
_CHUNK = 1 << 16


class JsonlWriter:
    """Append objects to one file, from any thread. One writer per file."""

    def __init__(self, path: Path, *, most_bytes: int = _MOST_BYTES, fs: FileSystem = REAL) -> None:
        self.path = path
        self.dropped = 0
        """Lines lost to a full disk or to text that cannot be encoded."""
        self._most_bytes = most_bytes
        self._fs = fs
        self._encoder = msgspec.json.Encoder(enc_hook=_plain)
        self._descriptor: int | None = None
        self._size = 0
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._open()
        except OSError as error:
            log.warning("%s: cannot be opened yet: %s", path, error)

    def write(self, record: Mapping[str, Any]) -> bool:
        """Append one object as one line; return False if it was dropped. Never raises for the disk's sake."""
        try:
            line = self._encoder.encode(record) + b"\n"
        except UnicodeEncodeError:
            return self._drop("text that is not Unicode")
        with self._lock:
            if self._closed:
                return self._drop("closed")
            if self._size and self._size + len(line) > self._most_bytes:
                self._rotate()
            return self._append(line)

    def close(self) -> None:
        """Close the file for good; lines that still come are dropped."""
        with self._lock:
            self._closed = True
            self._release()

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, line: bytes) -> bool:
        try:
            descriptor = self._open() if self._descriptor is None else self._descriptor
            written = self._fs.append(descriptor, line)
            if written < len(line):
                os.ftruncate(descriptor, self._size)
                return self._drop("a full disk")
        except OSError as error:
            return self._drop(str(error))
        self._size += written
        return True

    def _drop(self, reason: str) -> bool:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:  # 1, 2, 4, 8, ...: say so, without flooding
            log.warning("%s: %d lines lost so far (%s)", self.path, self.dropped, reason)
        return False

    def _open(self) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = _whole_lines(descriptor)
        os.ftruncate(descriptor, self._size)
        self._descriptor = descriptor
        return descriptor

    def _rotate(self) -> None:
        try:
            self._release()
            self._fs.rename(self.path, rotated(self.path))
            self._open()
        except OSError as error:
            log.warning("%s: cannot be rotated: %s", self.path, error)


def rotated(path: Path) -> Path:
    """Where the older half of a rotated file is."""
    return path.with_name(f"{path.stem}.1{path.suffix}")


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole object, older half first. A torn last line and lines that are no objects are skipped."""
    for part in (rotated(path), path):
        try:
            file = part.open("rb")
        except FileNotFoundError:
            continue
        with file:
            for line in file:
                record = _parse(line)
                if record is not None:
                    yield record


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def _whole_lines(descriptor: int) -> int:
    """Length of the file up to and including its last newline."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _CHUNK)
        at = os.pread(descriptor, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
