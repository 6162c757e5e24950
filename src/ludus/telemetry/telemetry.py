"""Metrics and events of a run, to every sink that listens.

A metric line is a flat dict of numbers at a step; an event is something that happened. `metrics.jsonl` and
`events.jsonl` are written at once; slower sinks hang behind one bounded queue, so a dead or slow sink never holds up
training: what it cannot take is dropped and counted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from ludus.storage.jsonl import JsonlWriter
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry.room_meters import RoomMeters

log = logging.getLogger(__name__)

QUEUE_LENGTH = 1000
CLOSE_DEADLINE_S = 5.0
WORK_OF = {
    "experience": "experience",
    "buffer": "buffer",
    "fused": "train",
    "psro": "train",
    "policies": "policies",
    "checkpoint": "storage",
    "storage": "storage",
}
"""The room whose work a timed block is; others are waits, or work that other processes do."""


class Sink(Protocol):
    """Somewhere metrics and events go. Called from one background thread."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Take one metric line."""
        ...

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """Write out what is held back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """How a sink is doing."""

    name: str
    queued: int = 0
    dropped: int = 0
    error: str = ""
    """Why it was switched off; empty while it works."""


class Telemetry:
    """Fans out metrics and events; also adds up the time spent in each room."""

    def __init__(self, run: RunDirectory, run_name: str) -> None:
        self._run_name = run_name
        self._metrics = JsonlWriter(run.metrics)
        self._events = JsonlWriter(run.events)
        self._sinks: list[Sink] = []
        self._queue: queue.Queue[tuple[str, Any, Any] | None] = queue.Queue(QUEUE_LENGTH)
        self._thread: threading.Thread | None = None
        self._room_s: dict[str, float] = {}
        self._latest: dict[str, float] = {}
        self.meters = RoomMeters()
        self.dropped = 0

    def attach(self, sink: Sink) -> None:
        """Add a sink; a sink that raises is taken out with a warning."""
        self._sinks.append(sink)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="telemetry", daemon=True)
            self._thread.start()

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record a metric line at an environment step."""
        self._latest.update(values)
        self._metrics.write({"time": time.time(), "step": step, **values})
        self._offer(("metrics", step, dict(values)))

    def event(self, kind: str, **fields: Any) -> None:
        """Record that something happened."""
        self._events.write({"time": time.time(), "event": kind, "run": self._run_name, **fields})
        self._offer(("event", kind, fields))

    @property
    def latest(self) -> dict[str, float]:
        """The newest value of every metric."""
        return dict(self._latest)

    @contextmanager
    def room(self, name: str) -> Iterator[None]:
        """Count the wall time of a block as time spent in a room."""
        started = time.perf_counter()
        try:
            with self.meters.working(WORK_OF[name]) if name in WORK_OF else nullcontext():
                yield
        finally:
            self._room_s[name] = self._room_s.get(name, 0.0) + time.perf_counter() - started

    def take_room_times(self) -> dict[str, float]:
        """Seconds per room since the last call, as metrics."""
        spent, self._room_s = self._room_s, {}
        return {f"time/{name}_s": seconds for name, seconds in sorted(spent.items())}

    def close(self) -> None:
        """Write out everything; slow sinks get a few seconds."""
        if self._thread is not None:
            try:
                self._queue.put(None, timeout=CLOSE_DEADLINE_S)
            except queue.Full:
                log.warning("a telemetry sink does not keep up; its last lines are lost")
            self._thread.join(CLOSE_DEADLINE_S)
        self._metrics.close()
        self._events.close()

    def _offer(self, item: tuple[str, Any, Any]) -> None:
        if self._thread is None:
            return
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self.dropped += 1

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            for sink in list(self._sinks):
                self._deliver(sink, item)
        for sink in self._sinks:
            self._guard(sink, sink.close)

    def _deliver(self, sink: Sink, item: tuple[str, Any, Any]) -> None:
        what, first, second = item
        if what == "metrics":
            self._guard(sink, lambda: sink.metrics(first, second))
        else:
            self._guard(sink, lambda: sink.event(first, second))

    def _guard(self, sink: Sink, call: Any) -> None:
        try:
            call()
        except Exception as error:
            # Telemetry must never stop a run: the sink is taken out, the local JSONL stays complete.
            log.warning("telemetry sink %s failed and is switched off: %s", type(sink).__name__, error)
            if sink in self._sinks:
                self._sinks.remove(sink)
