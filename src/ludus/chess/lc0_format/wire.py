"""The protobuf wire format, as much of it as lc0's network files need, driven by a table of fields.

A message is a dict by field name, with a list for a repeated field; a field that is absent is no key. What the schema
does not know stays in it as bytes, under `UNKNOWN`, and is written back after the known fields. Invariant: for a file
in canonical form (fields in the order of their numbers), `encode(decode(data)) == data`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ludus.errors import CorruptRecord

Message = dict[str, Any]
UNKNOWN = ""
"""Key of the fields that the schema does not know, as raw bytes."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_WIRE = {"uint": _VARINT, "float": _FOUR, "fixed32": _FOUR, "bytes": _BYTES, "string": _BYTES}


@dataclass(frozen=True)
class Field:
    """One field: its name, and `uint`, `float`, `fixed32`, `bytes`, `string` or another schema."""

    name: str
    kind: str | Schema
    repeated: bool = False

    @property
    def wire(self) -> int:
        """The wire type that it is written with."""
        return _WIRE[self.kind] if isinstance(self.kind, str) else _BYTES


@dataclass(frozen=True)
class Schema:
    """The fields of a message by number."""

    name: str
    fields: Mapping[int, Field]


def decode(schema: Schema, data: memoryview, start: int = 0) -> Message:
    """A message. `start` is where it begins in the file, for errors."""
    message: Message = {}
    for number, wire, at, begin, end in _split(schema, data, start):
        field = schema.fields.get(number)
        if field is None:
            message[UNKNOWN] = message.get(UNKNOWN, b"") + bytes(data[at:end])
            continue
        where = f"offset {start + at}: {schema.name}.{field.name}"
        if wire != field.wire:
            raise CorruptRecord(f"{where}: wire type {wire}, expected {field.wire}")
        value = _value(field, data[begin:end], start + begin, where)
        if field.repeated:
            message.setdefault(field.name, []).append(value)
        elif field.name in message:
            raise CorruptRecord(f"{where}: there twice")
        else:
            message[field.name] = value
    return message


def encode(schema: Schema, message: Message) -> bytes:
    """The bytes of a message, fields in the order of their numbers."""
    unexpected = message.keys() - {field.name for field in schema.fields.values()} - {UNKNOWN}
    if unexpected:
        raise ValueError(f"{schema.name} has no field {', '.join(sorted(unexpected))}")
    parts: list[bytes] = []
    for number, field in sorted(schema.fields.items(), key=lambda entry: entry[0]):
        if field.name in message:
            values = message[field.name] if field.repeated else [message[field.name]]
            for value in values:
                parts += [_varint(number << 3 | field.wire), _encoded(field, value)]
    return b"".join([*parts, message.get(UNKNOWN, b"")])


def _split(schema: Schema, data: memoryview, start: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(field number, wire type, where the field begins, where its value begins and ends) of each field."""
    at = 0
    while at < len(data):
        key, begin = _read_varint(data, at, start)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            _, end = _read_varint(data, begin, start)
        elif wire in (_FOUR, _EIGHT):
            end = begin + (4 if wire == _FOUR else 8)
        elif wire == _BYTES:
            size, begin = _read_varint(data, begin, start)
            end = begin + size
        else:
            raise CorruptRecord(f"offset {start + at}: {schema.name}: unknown wire type {wire}")
        if end > len(data) or number == 0:
            why = "field number 0" if number == 0 else f"{end - len(data)} bytes are missing"
            raise CorruptRecord(f"offset {start + at}: {schema.name}: field {number}: {why}")
        yield number, wire, at, begin, end
        at = end


def _value(field: Field, data: memoryview, start: int, where: str) -> Any:
    if isinstance(field.kind, Schema):
        return decode(field.kind, data, start)
    if field.kind == "uint":
        return _read_varint(data, 0, start)[0]
    if field.kind == "bytes":
        return data
    if field.kind == "string":
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"{where}: not UTF-8") from error
    return struct.unpack("<f" if field.kind == "float" else "<I", data)[0]


def _encoded(field: Field, value: Any) -> bytes:
    if field.kind == "uint":
        return _varint(value)
    if field.wire == _FOUR:
        return struct.pack("<f" if field.kind == "float" else "<I", value)
    if isinstance(field.kind, Schema):
        data = encode(field.kind, value)
    else:
        data = value.encode() if field.kind == "string" else bytes(value)
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _read_varint(data: memoryview, at: int, start: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(data):
            raise CorruptRecord(f"offset {start + at}: a number ends with the data")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise CorruptRecord(f"offset {start + at}: a number of more than ten bytes")
