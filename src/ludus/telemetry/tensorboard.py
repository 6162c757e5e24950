"""Metrics as TensorBoard scalars under `tensorboard/`; open with `tensorboard --logdir runs`.

Invariant: every record in the file is whole. A line that finds the disk full is lost and counted; the next that fits
follows the last whole one. Each start of a run writes a file of its own, as TensorBoard expects.

An event file is a sequence of `length, crc(length), message, crc(message)`, little-endian, with masked CRC-32C; a
message is an `Event` of TensorFlow's event.proto: wall_time = 1 (double), step = 2 (varint), file_version = 3 (text),
summary = 5 {value = 1 {tag = 1 (text), simple_value = 2 (float)}}. Only what scalars need is here.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ludus.storage.append_file import AppendFile
from ludus.storage.atomic import ensure_directory
from ludus.storage.filesystem import REAL, FileSystem

_LARGEST = 3.4028234663852886e38
"""Of a scalar in an event file; what is larger has no place on a curve either."""
_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8
_WORD = 0xFFFFFFFF


class TensorBoardSink:
    """Writes scalars, without TensorFlow."""

    name = "tensorboard"

    def __init__(self, directory: Path, *, fs: FileSystem = REAL) -> None:
        """A new event file in `directory`, from the first line on."""
        now = time.time()
        file = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._directory = directory
        self._fs = fs
        self._file = AppendFile(directory / file, start=version_record(now), fs=fs)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers at their step; what is not finite has no place on a curve."""
        finite = {name: value for name, value in values.items() if math.isfinite(value) and abs(value) <= _LARGEST}
        ensure_directory(self._directory, fs=self._fs)
        self._file.append(scalars_record(time.time(), step, finite))

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Events are in `events.jsonl`; TensorBoard has no use for them."""

    def close(self) -> None:
        """Everything is in the file already."""
        self._file.close()


def version_record(wall_time: float) -> bytes:
    """The record that an event file begins with."""
    return _record(_double(1, wall_time) + _bytes(3, b"brain.Event:2"))


def scalars_record(wall_time: float, step: int, values: Mapping[str, float]) -> bytes:
    """Some scalars at one step, as one record."""
    summary = b"".join(_bytes(1, _tag(name) + struct.pack("<Bf", 0x15, value)) for name, value in values.items())
    return _record(_double(1, wall_time) + b"\x10" + _varint(step) + _bytes(5, summary))


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum."""
    crc = _WORD
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ _WORD


def _record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + _masked(length) + message + _masked(message)


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & _WORD)


@cache
def _tag(name: str) -> bytes:
    return _bytes(1, name.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _double(field: int, value: float) -> bytes:
    return struct.pack("<Bd", field << 3 | 1, value)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _table_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = tuple(_table_entry(byte) for byte in range(256))
