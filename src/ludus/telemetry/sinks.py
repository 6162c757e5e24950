"""What a sink for metrics and events must offer, the thread that serves it, and how it is doing."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from ludus.storage.jsonl import read_jsonl

log = logging.getLogger(__name__)

MOST_FAILURES = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0


class Sink(Protocol):
    """Somewhere metrics and events go. Called from one thread of its own; it may be slow, hang or raise.

    A sink that raises loses the line that it was given and gets the next one a little later; one that raises again and
    again is switched off. Nothing that can take time or fail belongs in its constructor.
    """

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Take one metric line."""
        ...

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """Write out what is held back; called once, last, also after the sink was switched off."""
        ...


class LinesLost(Exception):
    """Raised by a sink that lost more, or fewer, lines than the one that it was given."""

    def __init__(self, reason: str, *, lines: int) -> None:
        super().__init__(reason)
        self.lines = lines


@runtime_checkable
class Abandonable(Protocol):
    """A sink that holds something that would outlive the run, such as a process."""

    def abandon(self) -> None:
        """Let go of it at once. Called from another thread while one of the sink's own calls does not come back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """How a sink is doing."""

    name: str
    queued: int
    """Lines that wait for it."""
    dropped: int
    """Lines that it never got, or that it failed to take."""
    error: str
    """Why it was switched off or, while it is tried again, why it failed last; empty while it works."""
    is_off: bool
    """It gets nothing any more."""


def name_of(sink: Sink) -> str:
    """What a sink calls itself (`name`), else its type."""
    return str(getattr(sink, "name", type(sink).__name__))


def read_sink_troubles(events: Path) -> list[SinkStatus]:
    """The sinks that dropped lines or failed since the run was last started; of a live run, as far as it is known."""
    known: dict[str, SinkStatus] = {}
    for line in read_jsonl(events):
        match line.get("event"):
            case "started":
                known = {}
            case "sink_behind" | "sink_off" as kind:
                before = known.get(line["sink"])
                dropped = line.get("dropped", before.dropped if before else 0)
                known[line["sink"]] = SinkStatus(
                    name=line["sink"], queued=0, dropped=dropped, error=line["error"], is_off=kind == "sink_off"
                )
            case "sinks":
                known = {each["name"]: msgspec.convert(each, SinkStatus) for each in line["sinks"]}
    return [status for status in known.values() if status.dropped or status.error]


def trouble_in_words(status: SinkStatus) -> str:
    """What happened to a sink, on one line."""
    lost = f"{status.dropped:,} lines lost" if status.dropped else ""
    off = "switched off" if status.is_off else ""
    return ", ".join(part for part in (lost, off) if part) + (f" ({status.error})" if status.error else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A metric line or an event."""

    give: Callable[[Sink], None]
    """Gives it to a sink."""
    is_metrics: bool
    """A sink that takes these works; events mean nothing to many."""


class Backlog:
    """The last `length` lines that were put, for several readers.

    Writing never waits for a reader, and no reader for another. A reader that is further behind than `length` has lost
    the oldest lines, and knows how many.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self.is_closed = False
        self.changed = threading.Condition()
        """Held while anything here or in a reader changes."""
        self._readers: list[BacklogReader] = []

    def put(self, line: Line) -> None:
        """Add a line in place of the oldest. After `close` it is ignored."""
        with self.changed:
            if not self.is_closed:
                for reader in self._readers:
                    reader.receive(line)
                self.changed.notify_all()

    def close(self) -> None:
        """Nothing more comes: readers take what is left and end."""
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    def reader(self) -> BacklogReader:
        """A reader of everything from now on."""
        with self.changed:
            self._readers.append(BacklogReader(self))
            return self._readers[-1]


class BacklogReader:
    """One reader's lines of a backlog. Everything but `take` and `rest` may be called from any thread."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._lines: deque[Line] = deque(maxlen=backlog.length)
        """Holds nothing any more after `leave`."""
        self.missed = 0
        """Lines that this reader can never take any more."""

    @property
    def waiting(self) -> int:
        """Lines that this reader can still take."""
        return len(self._lines)

    def receive(self, line: Line) -> None:
        """Keep a line in place of the oldest. Called by the backlog, which holds `changed`."""
        self.missed += len(self._lines) == self._lines.maxlen
        self._lines.append(line)

    def take(self) -> Line | None:
        """The next line, as soon as there is one; None when nothing more comes, or after `leave`."""
        with self._backlog.changed:
            self._backlog.changed.wait_for(lambda: self._lines or self._backlog.is_closed or self._lines.maxlen == 0)
            return self._lines.popleft() if self._lines else None

    def rest(self, seconds: float) -> None:
        """Let time pass, but not when nothing more comes."""
        with self._backlog.changed:
            self._backlog.changed.wait_for(lambda: self._backlog.is_closed, seconds)

    def leave(self) -> None:
        """Take nothing more: from now on every line is a missed one."""
        with self._backlog.changed:
            self.missed += len(self._lines)
            self._lines = deque(maxlen=0)
            self._backlog.changed.notify_all()


class SinkThread:
    """Gives a sink what there is in the backlog, line by line.

    Whatever the sink does, nobody but this thread waits for it. A failure costs one line, then there is a pause that
    doubles from failure to failure; after `MOST_FAILURES` in a row the sink is switched off.
    """

    def __init__(self, sink: Sink, reader: BacklogReader, tell: Callable[..., None]) -> None:
        """`tell` records an event: that the sink is switched off."""
        self.name = name_of(sink)
        self._sink = sink
        self._reader = reader
        self._tell = tell
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
        self._tell("sink_off", sink=self.name, error=self._error)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, LinesLost) else f"{type(error).__name__}: {error}"
