"""Bytes to lines. Invariant: a line that never ends costs no more memory than a line may have."""

from __future__ import annotations

MOST_LINE_BYTES = 1_000_000


class LineSplitter:
    """Takes chunks as they come from a pipe; lines that are too long are left out and counted."""

    def __init__(self, most_bytes: int = MOST_LINE_BYTES) -> None:
        self._most = most_bytes
        self._begun = bytearray()
        self._is_skipping = False
        self.too_long = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends."""
        first, *rest = chunk.split(b"\n")
        if not rest:
            self._keep(first)
            return []
        self._keep(first)
        whole = [*self._finish(), *(line for line in rest[:-1] if self._is_short(line))]
        self._keep(rest[-1])
        return whole

    def end(self) -> list[bytes]:
        """What came after the last end of a line."""
        return self._finish() if self._begun else []

    def _keep(self, part: bytes) -> None:
        if self._is_skipping:
            return
        self._begun += part
        if len(self._begun) > self._most:
            self.too_long += 1
            self._is_skipping = True
            self._begun.clear()

    def _finish(self) -> list[bytes]:
        line, was_skipping = bytes(self._begun), self._is_skipping
        self._begun.clear()
        self._is_skipping = False
        return [] if was_skipping else [line]

    def _is_short(self, line: bytes) -> bool:
        if len(line) <= self._most:
            return True
        self.too_long += 1
        return False
