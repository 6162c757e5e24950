"""What may stand in a row: JSON values that every other part can store, send and show.

Invariant: a value that passes `measure` can be encoded as JSON and as UTF-8, has no NaN, and is bounded in size and
depth, whichever file or plugin it came from.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from ludus.config import Path, printable, shorten

MOST_ROW_BYTES = 4 * 2**20
MOST_DEPTH = 16
MOST_RATIO = 100
"""What a file of more than a few rows may unpack to, in multiples of its size."""
_ALWAYS_BYTES = 2**26
_VALUE_BYTES = 8


class Flaw(ValueError):
    """What is wrong with one row; it costs that row only."""


def measure(fields: Any) -> int:
    """About how many bytes a row takes.

    Raises:
        Flaw: it holds something that is not JSON, or too much of it.
    """
    if not isinstance(fields, dict):
        raise Flaw(f"expected an object with fields, got {_name(fields)}")
    meter = _Meter()
    meter.add(fields, ())
    return meter.size


class _Meter:
    """Adds up the sizes of values, and stops at what is not JSON or too large."""

    def __init__(self) -> None:
        self.size = 0

    def add(self, value: Any, path: Path) -> None:
        self.size += _size(value, path)
        if self.size > MOST_ROW_BYTES:
            raise Flaw(f"larger than {MOST_ROW_BYTES:,} bytes")
        if isinstance(value, dict | list):
            if len(path) >= MOST_DEPTH:
                raise Flaw(f"nested more than {MOST_DEPTH} levels deep")
            for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
                self.add(entry, (*path, key))


def most_unpacked(size_bytes: int) -> int:
    """How much a file or a part of it may unpack to before it counts as a bomb."""
    return _ALWAYS_BYTES + MOST_RATIO * size_bytes


def as_number(value: Any) -> float | None:
    """A finite number, or text that reads as one; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > 400:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _size(value: Any, path: Path) -> int:
    """What a value takes beside its entries."""
    match value:
        case None | bool():
            return _VALUE_BYTES
        case str():
            return _VALUE_BYTES + _text_size(value, path)
        case int():
            if not -(2**63) <= value < 2**63:
                raise Flaw(f"{_at(path)}a number of more than 64 bits")
            return _VALUE_BYTES
        case float():
            if not isfinite(value):
                raise Flaw(f"{_at(path)}{value} is not a number that JSON has")
            return _VALUE_BYTES
        case list():
            return _VALUE_BYTES
        case dict():
            return _VALUE_BYTES + sum(_key_size(key, path) for key in value)
    raise Flaw(f"{_at(path)}{_name(value)} is not JSON")


def _key_size(key: Any, path: Path) -> int:
    if not isinstance(key, str):
        raise Flaw(f"{_at(path)}a key that is not text")
    return _text_size(key, path)


def _text_size(text: str, path: Path) -> int:
    if "\0" in text:
        raise Flaw(f"{_at(path)}holds a NUL character")
    if text.isascii() or len(text) > MOST_ROW_BYTES:
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Flaw(f"{_at(path)}holds half of a character (a lone surrogate)") from None


def _at(path: Path) -> str:
    return f"field {shorten(printable('.'.join(map(str, path))))}: " if path else ""


def _name(value: Any) -> str:
    names = {str: "text", list: "a list", dict: "an object", bool: "true or false", type(None): "null", bytes: "bytes"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"a {type(value).__name__}")
