"""Traces: a few sequences of every update as its trainer saw them, in files that grow by whole frames.

    traces/000000000001.frames  000000000840.frames  ...      named by the first update in them

A frame is a header (mark, update, length, XXH3 of what follows) and a msgpack list of `TracedSequence`s. Frames are
handed to the system at once but not synced: a killed process loses none, a power loss may cost the newest.

Invariants: every update is there once at most, because a run that resumes cuts off what is later than its checkpoint
before it appends. A torn or rotten frame ends its file for readers, and is cut off by the next start. Nothing depends
on traces: a frame that does not fit on the disk is dropped and counted.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from ludus.errors import CorruptRecord, DiskFull
from ludus.storage.append_file import AppendFile
from ludus.storage.atomic import ensure_directory
from ludus.storage.filesystem import REAL, FileSystem

log = logging.getLogger(__name__)

SUFFIX = ".frames"
MOST_FRAME_BYTES = 1 << 30
_HEADER = struct.Struct("<4sQIQ")
_MARK = b"LTR1"
_PARTS = 8
"""Files that the budget is spread over: the oldest of them makes room."""
_LEAST_FILE_BYTES = 65_536
INTEGERS = ("action", "version")
"""Columns of int32; `mask` is bool, all others are float32."""


class TracedSequence(msgspec.Struct, kw_only=True, frozen=True):
    """What one learning seat saw and did in one episode, and what the trainer thought of it before the update."""

    episode: str
    seat: int
    turn: int = -1
    """-1 where a sequence is all that a seat did."""
    task: int = 0
    attempt: int = 0
    game: str = ""
    policy: str = ""
    group: str = ""
    final_reward: float = 0.0
    shaped_reward: float = 0.0
    truncated: bool = False
    columns: dict[str, bytes] = {}
    """`action`, `mask`, `version`, and as float32 `logp` (of whoever played), `trainer_logp`, `advantage`, `target`,
    `value`, `reward`; `ref_logp` and `teacher_logp` where there is such a model."""

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns, `[T]` each."""
        return {name: np.frombuffer(data, _type_of(name)) for name, data in self.columns.items()}


def packed(columns: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    """Columns as `TracedSequence` holds them."""
    return {name: np.ascontiguousarray(column, _type_of(name)).tobytes() for name, column in columns.items()}


def encode_traces(sequences: Sequence[TracedSequence]) -> bytes:
    """What a frame holds."""
    return msgspec.msgpack.encode(list(sequences))


def decode_traces(payload: bytes | memoryview) -> list[TracedSequence]:
    """The inverse.

    Raises:
        CorruptRecord: it is something else.
    """
    try:
        found = msgspec.msgpack.decode(payload, type=list[TracedSequence])
        for each in found:
            if len({len(column) for column in each.arrays.values()}) > 1:
                raise ValueError("columns of different lengths")
    except (msgspec.MsgspecError, ValueError) as error:
        raise CorruptRecord(f"not traced sequences: {error}") from error
    return found


def _type_of(name: str) -> type[np.generic]:
    return np.int32 if name in INTEGERS else np.bool_ if name == "mask" else np.float32


class TraceLog:
    """Appends the traces of a run. One thread of the process that holds the run lock."""

    def __init__(self, directory: Path, *, keep_bytes: int, fs: FileSystem = REAL) -> None:
        self.directory = directory
        self.dropped = 0
        """Frames that did not fit on the disk."""
        self._keep_bytes, self._fs = keep_bytes, fs
        self._file: AppendFile | None = None

    def rewind(self, update: int) -> None:
        """Cut off what is later than this update, and half a frame at the end: the run goes on from here."""
        self.close()
        for path in reversed(trace_files(self.directory)):
            if first_update(path) > update:
                self._fs.unlink(path)
                continue
            end = 0
            for frame in scan_frames(path):
                if frame.update > update:
                    break
                end = frame.end
            if end < path.stat().st_size:
                os.truncate(path, end)
            return

    def add(self, update: int, payload: bytes | memoryview) -> None:
        """Append what `encode_traces` made; never raises for the disk's sake."""
        if not len(payload):
            return
        frame = _HEADER.pack(_MARK, update, len(payload), xxhash.xxh3_64_intdigest(payload)) + bytes(payload)
        try:
            self._room_for(update, len(frame)).append(frame)
        except (OSError, DiskFull) as error:
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # 1, 2, 4, 8, ...: say so, without flooding
                log.warning("%s: %d traces lost so far (%s)", self.directory, self.dropped, error)

    def close(self) -> None:
        """Close the file that grows; `add` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _room_for(self, update: int, size: int) -> AppendFile:
        """The file to append to; a new one where the newest is long enough."""
        if self._file is None:
            ensure_directory(self.directory, fs=self._fs)
            known = trace_files(self.directory)
            self._file = AppendFile(known[-1] if known else self._path(update), fs=self._fs)
            self._file.open()
        if self._file.size and self._file.size + size > max(self._keep_bytes // _PARTS, _LEAST_FILE_BYTES):
            self._file.close()
            self._file = AppendFile(self._path(update), fs=self._fs)
            self._trim(size)
        return self._file

    def _trim(self, coming: int) -> None:
        """Remove the oldest files until what is left and a file to come fit into the budget."""
        files = trace_files(self.directory)
        sizes = [path.stat().st_size for path in files]
        excess = sum(sizes) + max(coming, self._keep_bytes // _PARTS) - self._keep_bytes
        for path, size in zip(files, sizes, strict=True):
            if excess <= 0:
                return
            self._fs.unlink(path)
            excess -= size

    def _path(self, update: int) -> Path:
        return self.directory / f"{update:012d}{SUFFIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where a whole frame is."""

    path: Path
    update: int
    start: int
    """Where its payload begins."""
    end: int

    def read(self) -> list[TracedSequence]:
        """Its sequences.

        Raises:
            CorruptRecord: it is gone, or holds something else.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.start)
                return decode_traces(file.read(self.end - self.start))
        except OSError as error:
            raise CorruptRecord(f"{self.path}: {error.strerror}") from error


def trace_files(directory: Path) -> list[Path]:
    """The files of traces, oldest first."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
    except OSError:
        return []
    return [directory / name for name in sorted(names) if name.removesuffix(SUFFIX).isdigit()]


def first_update(path: Path) -> int:
    """The first update in a file."""
    return int(path.name.removesuffix(SUFFIX))


def scan_frames(path: Path) -> Iterator[Frame]:
    """Every whole frame of a file, in order; the first that is torn or rotten ends it."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            mark, update, length, digest = _HEADER.unpack(header)
            if mark != _MARK or length > MOST_FRAME_BYTES:
                return
            start, payload = file.tell(), file.read(length)
            if len(payload) < length or xxhash.xxh3_64_intdigest(payload) != digest:
                return
            yield Frame(path=path, update=update, start=start, end=start + length)
