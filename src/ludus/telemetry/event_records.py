"""Records of a TensorBoard event file, as bytes.

An event file is a sequence of `length, crc(length), message, crc(message)`, little-endian, with masked CRC-32C; a
message is an `Event` of TensorFlow's event.proto: wall_time = 1 (double), step = 2 (varint), file_version = 3 (text),
summary = 5 {value = 1 {tag = 1 (text), simple_value = 2 (float)}}. Only what scalars need is here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache

_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8
_WORD = 0xFFFFFFFF


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
