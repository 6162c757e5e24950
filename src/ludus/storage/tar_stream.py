"""Read a tar stream entry by entry, front to back, with every field checked.

Invariant: an entry's size is checked against the limit before anything of that size is read, and against the bytes
that are really there. Understands ustar, the long names of GNU and the `path` of PAX; other PAX records are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO

from ludus.errors import CorruptRecord

_BLOCK = 512
_MOST_NAME_BYTES = 64_000


class TarEntry(Enum):
    """What an entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"


_KINDS = {b"0": TarEntry.FILE, b"\0": TarEntry.FILE, b"7": TarEntry.FILE, b"5": TarEntry.DIRECTORY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry; `content` is empty unless it is a file."""

    name: str
    kind: TarEntry
    content: bytes


def read_tar(stream: BinaryIO, *, most_entries: int, most_bytes: int) -> Iterator[Entry]:
    """Yield the entries of a tar stream up to its end mark.

    Raises:
        CorruptRecord: at the first entry that is malformed, too large, or one too many.
    """
    long_name: str | None = None
    for count, header in enumerate(_headers(stream)):
        if count >= most_entries:
            raise CorruptRecord(f"more than {most_entries} entries")
        flag, size = header[156:157], _size(header)
        if flag in (b"L", b"x", b"g"):
            text = _content(stream, size, _MOST_NAME_BYTES)
            if flag != b"g":
                long_name = _decode(text.split(b"\0")[0]) if flag == b"L" else _pax_path(text) or long_name
            continue
        name, long_name = long_name or _name(header), None
        kind = _KINDS.get(flag, TarEntry.OTHER)
        content = _content(stream, size, most_bytes) if kind is TarEntry.FILE else b""
        yield Entry(name=name, kind=kind, content=content)


def _headers(stream: BinaryIO) -> Iterator[bytes]:
    while True:
        header = stream.read(_BLOCK)
        if len(header) < _BLOCK:
            raise CorruptRecord("the tar stream is truncated")
        if header == bytes(_BLOCK):
            return
        stated = _octal(header[148:156], "checksum")
        if sum(header[:148]) + sum(header[156:]) + 8 * 32 != stated:
            raise CorruptRecord("an entry's header does not match its checksum")
        yield header


def _size(header: bytes) -> int:
    field = header[124:136]
    if field[0] & 0x80:  # base 256: negative, or at least 8 GiB in practice
        raise CorruptRecord("an entry says it is negative or larger than 8 GiB")
    return _octal(field, "size")


def _octal(field: bytes, what: str) -> int:
    digits = field.replace(b"\0", b" ").strip()
    if digits.strip(b"01234567"):
        raise CorruptRecord(f"an entry's {what} is not a number")
    return int(digits or b"0", 8)


def _content(stream: BinaryIO, size: int, most_bytes: int) -> bytes:
    if size > most_bytes:
        raise CorruptRecord(f"an entry says it has {size} bytes; at most {most_bytes}")
    padded = -(-size // _BLOCK) * _BLOCK
    content = stream.read(padded)
    if len(content) < padded:
        raise CorruptRecord("the tar stream is truncated")
    return content[:size]


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return _decode(prefix + b"/" + name if prefix else name)


def _pax_path(text: bytes) -> str | None:
    """The `path` among records of the form `<length> <key>=<value>\\n`."""
    path = None
    while text:
        digits, _, _ = text.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 8 else 0
        record = text[len(digits) + 1 : length]
        if not len(digits) + 1 < length <= len(text) or not record.endswith(b"\n") or b"=" not in record:
            raise CorruptRecord("a PAX header is malformed")
        key, _, value = record[:-1].partition(b"=")
        if key == b"size":
            raise CorruptRecord("an entry states its size a second time")
        path = _decode(value) if key == b"path" else path
        text = text[length:]
    return path


def _decode(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecord(f"an entry's name is not UTF-8: {name[:40]!r}") from error
