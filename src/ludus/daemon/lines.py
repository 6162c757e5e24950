"""Bytes to lines, with a bound on what is held in memory.

Invariant: every line of the input comes out exactly once, in order, without its end: whole, or as `TooLong` when it has
more than `most_bytes`. What stands behind the last line's end counts as a line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 1_000_000
CHUNK_BYTES = 1 << 16
_KEPT = 4096
"""Bytes of the beginning and the end of a line that is too long, to find its id in."""


@dataclass(slots=True)
class TooLong:
    """What is remembered of a line that is thrown away."""

    size: int
    beginning: bytes
    end: bytes

    @classmethod
    def of(cls, part: bytes | bytearray) -> TooLong:
        """A line that begins with this part."""
        return cls(len(part), bytes(part[:_KEPT]), bytes(part[-_KEPT:]))

    def add(self, part: bytes) -> None:
        """The line goes on."""
        self.size += len(part)
        self.end = (self.end + part[-_KEPT:])[-_KEPT:]


class LineSplitter:
    """Takes chunks as they come from a pipe."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._begun = bytearray()
        self._skipped: TooLong | None = None

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that this chunk completes."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if not others:
            return []
        *whole, rest = others
        lines = [self._finish(), *(line if len(line) <= self._most else TooLong.of(line) for line in whole)]
        self._keep(rest)
        return lines

    def end(self) -> list[bytes | TooLong]:
        """What came after the last end of a line."""
        return [self._finish()] if self._begun or self._skipped else []

    def _keep(self, part: bytes) -> None:
        if self._skipped is not None:
            self._skipped.add(part)
            return
        self._begun += part
        if len(self._begun) > self._most:
            self._skipped = TooLong.of(self._begun)
            self._begun.clear()

    def _finish(self) -> bytes | TooLong:
        line, self._skipped = self._skipped or bytes(self._begun), None
        self._begun.clear()
        return line


def read_lines(descriptor: int, *, most_bytes: int = MOST_BYTES) -> Iterator[bytes | TooLong]:
    """Lines of a descriptor until the end of the input, or until it fails."""
    splitter = LineSplitter(most_bytes)
    while chunk := _read(descriptor):
        yield from splitter.feed(chunk)
    yield from splitter.end()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:  # the other side is gone, which is the end
        return b""
