"""Append-only JSON lines: metrics and events.

Invariant: every complete line is one JSON object; NaN and infinities are written as null. A write that fails costs its
own line and nothing else: the file is cut back to its last whole line, the loss is counted, and the caller goes on.
The file is rotated by size (`metrics.jsonl` -> `metrics.1.jsonl`), so two files bound the space.

Not covered: power loss. Lines are handed to the system at once but not synced; nothing that matters is only here.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ludus.storage.append_file import AppendFile
from ludus.storage.filesystem import REAL, FileSystem

log = logging.getLogger(__name__)

_MOST_BYTES = 64_000_000
_MOST_LINE_BYTES = 4_000_000
"""Of a line that is read; a longer one is passed over."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class JsonlWriter:
    """Append objects to one file, from any thread. One writer per file."""

    def __init__(self, path: Path, *, most_bytes: int = _MOST_BYTES, fs: FileSystem = REAL) -> None:
        self.path = path
        self.dropped = 0
        """Lines lost to a full disk or to text that cannot be encoded."""
        self._most_bytes = most_bytes
        self._fs = fs
        self._encoder = msgspec.json.Encoder(enc_hook=_plain)
        self._file = AppendFile(path, end=b"\n", fs=fs)
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._file.open()
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
            if self._file.size and self._file.size + len(line) > self._most_bytes:
                self._rotate()
            try:
                self._file.append(line)
            except OSError as error:
                return self._drop(error.strerror or str(error))
            return True

    def close(self) -> None:
        """Close the file for good; lines that still come are dropped."""
        with self._lock:
            self._closed = True
            self._file.close()

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drop(self, reason: str) -> bool:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:  # 1, 2, 4, 8, ...: say so, without flooding
            log.warning("%s: %d lines lost so far (%s)", self.path, self.dropped, reason)
        return False

    def _rotate(self) -> None:
        try:
            self._file.close()
            self._fs.rename(self.path, rotated(self.path))
            self._file.open()
        except OSError as error:
            log.warning("%s: cannot be rotated: %s", self.path, error)


def rotated(path: Path) -> Path:
    """Where the older half of a rotated file is."""
    return path.with_name(f"{path.stem}.1{path.suffix}")


def read_jsonl(path: Path, *, mention: str = "") -> Iterator[dict[str, Any]]:
    """Every whole object, older half first. A torn last line, and lines too long or no objects, are skipped.

    `mention`: only lines with this text in them, which is quicker than to read them all.
    """
    wanted = mention.encode()
    for line in read_lines(path):
        if wanted in line and (record := parse_line(line)) is not None:
            yield record


def read_lines(path: Path) -> Iterator[bytes]:
    """Every whole line, older half first, as it stands there. A torn last line, and lines too long, are skipped."""
    for part in (rotated(path), path):
        try:
            file = part.open("rb")
        except FileNotFoundError:
            continue
        with file:
            is_start = True
            while line := file.readline(_MOST_LINE_BYTES):
                is_whole = line.endswith(b"\n")
                if is_start and is_whole:
                    yield line
                is_start = is_whole


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The object that a line holds; None where it holds something else."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:  # NaN, infinities and half surrogate pairs, which other programs write
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
