"""Values between a solution and whoever tests it, as JSON that cannot be anything but plain data.

Whatever a solution returns arrives as None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset or dict
of exactly these types, or as the number of an object that stayed where it was. So no `__eq__` of a solution ever takes
part in a comparison. Messages are bounded in size and depth on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

MOST_BYTES = 1 << 20
"""Of one message."""
MOST_DEPTH = 64
_BIG = 1 << 53
_COLLECTIONS: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class NotPlain(ValueError):
    """A message that is no plain value, or too large."""


Keep = Callable[[object], int]
"""Gives the number under which an object that is no plain value stays here."""
Restore = Callable[[int], object]
"""Gives what stands here for an object that stayed on the other side."""


def encode(value: Any, keep: Keep | None = None, depth: int = 0) -> Any:
    """A value as JSON."""
    if depth > MOST_DEPTH:
        raise NotPlain("the value is nested too deeply")
    deeper = depth + 1
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case int():
            return int(value) if -_BIG < value < _BIG else {"int": hex(value)}
        case float():
            return float(value) if isfinite(value) else {"float": float(value).hex()}
        case complex():
            return {"complex": [value.real.hex(), value.imag.hex()]}
        case bytes() | bytearray():
            return {"bytes": bytes(value).hex()}
        case list():
            return [encode(item, keep, deeper) for item in value]
        case tuple() | set() | frozenset():
            kind = next(name for name, kind in _COLLECTIONS.items() if isinstance(value, kind))
            return {kind: [encode(item, keep, deeper) for item in value]}
        case dict():
            return {"dict": [[encode(key, keep, deeper), encode(item, keep, deeper)] for key, item in value.items()]}
    if keep is None:
        raise NotPlain(f"a {type(value).__name__} is no plain value")
    return {"object": keep(value)}


def decode(message: Any, restore: Restore | None = None, depth: int = 0) -> Any:
    """The value that `encode` made a message of; whoever wrote the message is not trusted."""
    if depth > MOST_DEPTH:
        raise NotPlain("the value is nested too deeply")
    deeper = depth + 1
    match message:
        case None | bool() | int() | float() | str():
            return message
        case list():
            return [decode(item, restore, deeper) for item in message]
    match list(message.items()) if isinstance(message, dict) else []:
        case [("int", str(digits))]:
            return int(digits, 16)
        case [("float", str(digits))]:
            return float.fromhex(digits)
        case [("complex", [str(real), str(imaginary)])]:
            return complex(float.fromhex(real), float.fromhex(imaginary))
        case [("bytes", str(digits))]:
            return bytes.fromhex(digits)
        case [("dict", list(pairs))]:
            return {decode(key, restore, deeper): decode(item, restore, deeper) for key, item in pairs}
        case [("object", int(number))] if restore is not None:
            return restore(number)
        case [(kind, list(items))] if kind in _COLLECTIONS:
            return _COLLECTIONS[kind](decode(item, restore, deeper) for item in items)
    raise NotPlain(f"a message holds {str(message)[:60]!r}, which is no value")


def dump(message: Any) -> bytes:
    """A message as a line."""
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if len(line) > MOST_BYTES:
        raise NotPlain(f"a message of {len(line)} bytes is larger than {MOST_BYTES}")
    return line


def load(line: bytes) -> Any:
    """The message on a line."""
    if len(line) > MOST_BYTES:
        raise NotPlain(f"a message of more than {MOST_BYTES} bytes")
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotPlain(f"a line that is no message ({type(error).__name__})") from None


def load_value(message: Any, restore: Restore | None = None) -> Any:
    """As `decode`, with every fault of the message as `NotPlain`."""
    try:
        return decode(message, restore)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise NotPlain(str(error)[:200]) from None
