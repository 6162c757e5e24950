"""One sink and the thread that serves it.

Invariant: whatever the sink does, nobody but this thread waits for it. A failure costs one line, then there is a pause
that doubles from failure to failure; after `MOST_FAILURES` in a row the sink is switched off.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ludus.telemetry.backlog import BacklogReader
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


class SinkThread:
    """Gives a sink what there is in the backlog, line by line."""

    def __init__(self, sink: Sink, reader: BacklogReader[Line], on_off: Callable[[str, str], None]) -> None:
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
        if self._in_a_row >= MOST_FAILURES:
            self._switch_off()
        else:
            self._reader.rest(min(FIRST_PAUSE_S * 2 ** (self._in_a_row - 1), LONGEST_PAUSE_S))

    def _switch_off(self) -> None:
        self._is_off = True
        self._reader.leave()
        log.warning("telemetry sink %s failed %d times and is switched off: %s", self.name, MOST_FAILURES, self._error)
        self._on_off(self.name, self._error)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, LinesLost) else f"{type(error).__name__}: {error}"
