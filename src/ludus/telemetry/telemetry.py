"""Metrics and events of a run, to every sink that listens.

A metric line is a flat dict of numbers at a step; an event is something that happened. `metrics.jsonl` and
`events.jsonl` are written at once. Other sinks read one bounded backlog, each with a thread of its own, so a dead or
slow sink never holds up training nor another sink: what it cannot take is dropped and counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import Any

from ludus.config import RunConfig
from ludus.extras import need_packages
from ludus.storage.jsonl import JsonlWriter
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry.room_meters import RoomMeters
from ludus.telemetry.sinks import Backlog, Line, Sink, SinkStatus, SinkThread
from ludus.telemetry.tensorboard import TensorBoardSink
from ludus.telemetry.wandb_sink import WandbSink

log = logging.getLogger(__name__)

QUEUE_LENGTH = 1000
CLOSE_DEADLINE_S = 10.0
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


class Telemetry:
    """Fans out metrics and events; also adds up the time spent in each room."""

    def __init__(self, run: RunDirectory, run_name: str) -> None:
        self._run_name = run_name
        self._metrics = JsonlWriter(run.metrics)
        self._events = JsonlWriter(run.events)
        self._backlog = Backlog(QUEUE_LENGTH)
        self._sinks: list[SinkThread] = []
        self._behind: set[str] = set()
        self._room_s: dict[str, float] = {}
        self._latest: dict[str, float] = {}
        self.meters = RoomMeters()

    def attach(self, sink: Sink) -> None:
        """Add a sink; it gets what comes from now on."""
        self._sinks.append(SinkThread(sink, self._backlog.reader(), self.event))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record a metric line at an environment step."""
        values = {**values, **self._losses()}
        self._latest.update(values)
        self._metrics.write({"time": time.time(), "step": step, **values})
        if self._sinks:
            self._backlog.put(Line(give=lambda sink: sink.metrics(step, values), is_metrics=True))

    def event(self, kind: str, **fields: Any) -> None:
        """Record that something happened."""
        self._events.write({"time": time.time(), "event": kind, "run": self._run_name, **fields})
        if self._sinks:
            self._backlog.put(Line(give=lambda sink: sink.event(kind, fields), is_metrics=False))

    def recall(self, values: Mapping[str, Any]) -> None:
        """Take values that are on record already, so that they are the newest known."""
        self._latest.update({name: float(value) for name, value in values.items() if value is not None})

    @property
    def latest(self) -> dict[str, float]:
        """The newest value of every metric."""
        return dict(self._latest)

    def sinks_status(self) -> tuple[SinkStatus, ...]:
        """How each sink is doing."""
        return tuple(sink.status() for sink in self._sinks)

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
        """Write out everything; all sinks together get a few seconds. How they did is the last event."""
        deadline = time.monotonic() + CLOSE_DEADLINE_S
        self._backlog.close()
        for sink in self._sinks:
            sink.join(max(deadline - time.monotonic(), 0.0))
        if self._sinks:
            self.event("sinks", sinks=[asdict(status) for status in self.sinks_status()])
        self._metrics.close()
        self._events.close()

    def _losses(self) -> dict[str, float]:
        """What was lost so far, as metrics; nothing when all is well."""
        dropped, unwritten = 0, self._metrics.dropped + self._events.dropped
        for status in self.sinks_status():
            dropped += status.dropped
            if status.dropped and status.name not in self._behind:
                self._behind.add(status.name)
                log.warning("telemetry sink %s loses lines (%s)", status.name, status.error or "it does not keep up")
                self.event("sink_behind", sink=status.name, dropped=status.dropped, error=status.error)
        named = {"telemetry/dropped": dropped, "telemetry/unwritten": unwritten}
        return {name: float(count) for name, count in named.items() if count}


def check_trackers(config: RunConfig) -> None:
    """See to it that every package that a sink needs is installed.

    Raises:
        ConfigError: one is not.
    """
    if config.telemetry.weights_and_biases is not None:
        need_packages("telemetry.wandb", "wandb")


def attach_trackers(telemetry: Telemetry, config: RunConfig, run: RunDirectory, also: Iterable[Sink] = ()) -> None:
    """Attach the sinks that a config asks for, and others. None of them is started here: their threads do that."""
    for sink in also:
        telemetry.attach(sink)
    if config.telemetry.tensorboard:
        telemetry.attach(TensorBoardSink(run.tensorboard))
    if (wandb := config.telemetry.weights_and_biases) is not None:
        # Several runs of one config (stages, seeds) are told apart by their directories.
        name = config.name if run.path.name == config.name else f"{config.name} {run.path.name}"
        telemetry.attach(WandbSink(run, wandb, run_name=name, values=config.model_dump(mode="json")))
