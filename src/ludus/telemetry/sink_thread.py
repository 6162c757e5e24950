"""One sink and the thread that serves it, from a backlog that all sinks read.

Invariant: whatever the sink does, nobody but this thread waits for it. A failure costs one line, then there is a pause
that doubles from failure to failure; after `MOST_FAILURES` in a row the sink is switched off.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ludus.telemetry.sink import Abandonable, LinesLost, Sink, SinkStatus, name_of

log = logging.getLogger(__name__)

MOST_FAILURES = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A metric line or an event."""

    give: Callable[[Sink], None]
    """Gives it to a sink."""
    is_metrics: bool
    """A sink that takes these works; events mean nothing to many."""


class Backlog:
    """One bounded queue with several readers: the last `length` lines that were put, and how far each reader is.

    Writing never waits for a reader, and no reader for another. There are at most `length` lines however many readers
    there are; one that is further behind has lost the oldest, and knows how many.
    """

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

    def reader(self) -> BacklogReader:
        """Somebody who reads everything from now on."""
        with self._changed:
            return BacklogReader(self, self._put)


class BacklogReader:
    """One reader's place in a backlog. Everything but `take` and `rest` may be called from any thread."""

    def __init__(self, backlog: Backlog, start: int) -> None:
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


class SinkThread:
    """Gives a sink what there is in the backlog, line by line."""

    def __init__(self, sink: Sink, reader: BacklogReader, on_off: Callable[[str, str], None]) -> None:
        """`on_off` is told the name and the error when the sink is switched off."""
        self.name = name_of(sink)
        self._sink = sink
        self._reader = reader
        self._on_off = on_off
        self._failed = 0
        self._in_a_row = 0
        self._error = ""
        self._is_off = False
        self._is_given_up = False
        self._is_giving = False
        self._thread = threading.Thread(target=self._serve, name=f"telemetry-{self.name}", daemon=True)
        self._thread.start()

    def status(self) -> SinkStatus:
        """How the sink is doing."""
        reader = self._reader
        return SinkStatus(
            name=self.name,
            queued=reader.waiting,
            dropped=reader.missed + self._failed,
            error=self._error,
            is_off=self._is_off,
        )

    def join(self, timeout_s: float) -> None:
        """Wait until the sink has taken everything, after the backlog was closed; then go on without it."""
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            return
        self._is_given_up = True
        self._reader.leave()
        self._failed += self._is_giving
        self._error = self._error or "it did not take its last lines in time"
        log.warning("telemetry sink %s did not end in time; it lost %d lines", self.name, self.status().dropped)
        if isinstance(self._sink, Abandonable):
            self._sink.abandon()

    def _serve(self) -> None:
        while not self._is_off and (line := self._reader.take()) is not None:
            self._give(line)
        try:
            self._sink.close()
        except Exception as error:
            if not self._is_given_up:
                self._failed += error.lines if isinstance(error, LinesLost) else 0
                self._error = self._error or _words(error)
                log.warning("telemetry sink %s could not be closed: %s", self.name, error)

    def _give(self, line: Line) -> None:
        self._is_giving, failure = True, None
        try:
            line.give(self._sink)
        except Exception as error:
            # Telemetry must never stop a run; what is lost here is in the local files.
            failure = error
        self._is_giving = False
        if self._is_given_up:
            return
        if failure is not None:
            self._fail(failure)
        elif self._in_a_row and line.is_metrics:
            log.warning("telemetry sink %s works again; it lost %d lines", self.name, self.status().dropped)
            self._in_a_row, self._error = 0, ""

    def _fail(self, error: Exception) -> None:
        self._failed += error.lines if isinstance(error, LinesLost) else 1
        self._in_a_row += 1
        self._error = _words(error)
        if self._in_a_row == 1:
            log.warning("telemetry sink %s failed and is tried again: %s", self.name, error)
        if self._in_a_row < MOST_FAILURES:
            self._reader.rest(min(FIRST_PAUSE_S * 2 ** (self._in_a_row - 1), LONGEST_PAUSE_S))
            return
        self._is_off = True
        self._reader.leave()
        log.warning("telemetry sink %s failed %d times and is switched off: %s", self.name, MOST_FAILURES, self._error)
        self._on_off(self.name, self._error)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, LinesLost) else f"{type(error).__name__}: {error}"
