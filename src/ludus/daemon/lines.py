"""Lines from a descriptor, with a bound on what is held in memory.

Invariant: every line of the input comes out exactly once, in order, without its end: whole, or as `TooLong` when it has
more than `most_bytes`. What stands behind the last line's end counts as a line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 1_000_000
_PIECE = 1 << 16
_KEPT = 4096
"""Bytes of the beginning and the end of a line that is too long, to find its id in."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was thrown away."""

    size: int
    beginning: bytes
    end: bytes


def read_lines(descriptor: int, *, most_bytes: int = MOST_BYTES) -> Iterator[bytes | TooLong]:
    """Lines until the end of the input, or until it fails."""
    held = bytearray()
    skipped: _Skipped | None = None
    while piece := _read(descriptor):
        *ends, rest = piece.split(b"\n")
        for part in ends:
            if skipped is not None:
                yield skipped.closed(part)
                skipped = None
            elif len(held) + len(part) > most_bytes:
                yield _Skipped(held + part).closed(b"")
            else:
                yield bytes(held) + part
            held.clear()
        if skipped is not None:
            skipped.add(rest)
        else:
            held += rest
            if len(held) > most_bytes:
                skipped = _Skipped(held)
                held.clear()
    if skipped is not None:
        yield skipped.closed(b"")
    elif held:
        yield bytes(held)


class _Skipped:
    """What is remembered of a line while it is thrown away."""

    def __init__(self, held: bytes | bytearray) -> None:
        self._size = len(held)
        self._beginning, self._end = bytes(held[:_KEPT]), bytes(held[-_KEPT:])

    def add(self, part: bytes) -> None:
        self._size += len(part)
        self._end = (self._end + part[-_KEPT:])[-_KEPT:]

    def closed(self, part: bytes) -> TooLong:
        self.add(part)
        return TooLong(self._size, self._beginning, self._end)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError:  # the other side is gone, which is the end
        return b""
