"""One bounded queue with several readers: the newest lines, and how far each reader is.

Invariant: writing never waits for a reader, and no reader for another. There are at most `length` lines however many
readers there are; one that is further behind has lost the oldest, and knows how many.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

Line = TypeVar("Line")


class Backlog(Generic[Line]):
    """The last `length` lines that were put."""

    def __init__(self, length: int) -> None:
        self._lines: list[Line | None] = [None] * length
        self._put = 0
        """Lines ever put; the newest has the number before this."""
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, line: Line) -> None:
        """Add a line in place of the oldest. After `close` it is ignored."""
        with self._changed:
            if not self._is_closed:
                self._lines[self._put % len(self._lines)] = line
                self._put += 1
                self._changed.notify_all()

    def close(self) -> None:
        """Nothing more comes: readers take what is left and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def reader(self) -> BacklogReader[Line]:
        """Somebody who reads everything from now on."""
        with self._changed:
            return BacklogReader(self, self._put)


class BacklogReader(Generic[Line]):
    """One reader's place in a backlog. Everything but `take` and `rest` may be called from any thread."""

    def __init__(self, backlog: Backlog[Line], start: int) -> None:
        self._backlog = backlog
        self._next = start
        self._missed = 0
        self._has_left = False

    def take(self) -> Line | None:
        """The next line, as soon as there is one; None when nothing more comes, or after `leave`."""
        backlog = self._backlog
        with backlog._changed:
            backlog._changed.wait_for(lambda: self._has_left or backlog._is_closed or self._next < backlog._put)
            if self._has_left:
                return None
            self._missed, self._next = self.missed, max(self._next, self._oldest)
            if self._next == backlog._put:
                return None
            line = backlog._lines[self._next % len(backlog._lines)]
            self._next += 1
            return line

    def rest(self, seconds: float) -> None:
        """Let time pass, but not when nothing more comes."""
        with self._backlog._changed:
            self._backlog._changed.wait_for(lambda: self._backlog._is_closed, seconds)

    def leave(self) -> None:
        """Take nothing more: from now on every line is a missed one."""
        with self._backlog._changed:
            self._has_left = True
            self._backlog._changed.notify_all()

    @property
    def missed(self) -> int:
        """Lines that this reader can never take any more."""
        lost_until = self._backlog._put if self._has_left else self._oldest
        return self._missed + max(lost_until - self._next, 0)

    @property
    def waiting(self) -> int:
        """Lines that this reader can still take."""
        return 0 if self._has_left else self._backlog._put - max(self._next, self._oldest)

    @property
    def _oldest(self) -> int:
        return max(self._backlog._put - len(self._backlog._lines), 0)
