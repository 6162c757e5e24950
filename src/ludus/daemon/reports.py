"""What a run is doing, as messages: rates and loads from two readings of its meters."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from msgspec import to_builtins

from ludus.daemon.messages import (
    Activity,
    LeelaSchedule,
    LeelaStatus,
    LoaderNews,
    NodeStatus,
    QueueFill,
    RoomStatus,
    Schedule,
    SinkStatus,
    Status,
    WorkerStatus,
)
from ludus.runtime import LoadMeter, with_loads
from ludus.telemetry.room_meters import ROOMS, RoomReading

if TYPE_CHECKING:
    from ludus.orchestrator.loader_watch import LoaderStatus
    from ludus.runs.driver import Status as LoopStatus
    from ludus.runs.staged import AnyRun

RENAMED = {"warming up": "TRAINING", "failed": "ERROR"}
"""Activities of a run that are told as others; the rest have the same name in capitals."""
MOST_WORKERS = 256
"""Workers that a status names: a message may have a million bytes."""
LAST_S = 1.0
"""What "the last second" is, at least."""

Readings = Mapping[str, RoomReading]


class Reporter:
    """Reports about one loop. Belongs to one thread at a time."""

    def __init__(self, loop: AnyRun) -> None:
        self._loop = loop
        self._rate, self._share_rate = Rate(), Rate()
        self._meter = LoadMeter()
        self._past: deque[tuple[float, Readings]] = deque([(time.monotonic(), {})])

    def status(self, *, is_exporting: bool = False) -> Status:
        """What the run is doing now."""
        loop, found = self._loop, self._loop.status()
        rate, stage = self._rate.update(found.steps), _stage(found)
        is_population = loop.config.population is not None
        speed, left = self._share_rate.update(found.share_done), 1.0 - found.share_done
        return Status(
            stage="EXPORTING" if is_exporting and stage == "TRAINING" else stage,
            activity=_activity(found),
            run=found.run,
            run_dir=found.run_dir,
            part=_part(found),
            update=found.update,
            steps=found.steps,
            total_steps=found.total_steps,
            share_done=found.share_done,
            unit="generations" if is_population else "steps",
            episodes=found.episodes,
            version=found.version,
            steps_per_s=0.0 if found.is_over or stage == "PAUSED" else rate,
            eta_s=left / speed if speed > 0 and stage == "TRAINING" and not is_population else None,
            uptime_s=found.elapsed_s,
            error=found.error,
            silent_workers=found.silent_workers,
            workers=self.workers(found),
            nodes=node_statuses(found),
            schedule=Schedule(**asdict(loop.schedule())),
            rooms=self.rooms(found),
            loader=None if found.loader is None else loader_news(found.loader),
            metrics={name: value if isfinite(value) else None for name, value in found.metrics.items()},
            sinks=tuple(
                SinkStatus(name=sink.name, queued=sink.queued, dropped=sink.dropped, error=sink.error)
                for sink in loop.sinks()
            ),
            commands=possible_commands(stage),
        )

    def workers(self, status: LoopStatus) -> tuple[WorkerStatus, ...]:
        """Each worker with its load against what it was a second ago."""
        shown = () if status.is_over else status.workers[:MOST_WORKERS]
        loads = self._meter.update(shown)
        return tuple(
            WorkerStatus(
                name=worker.name,
                node=worker.node,
                load=loads.get(worker.name),
                restarts=worker.starts - 1,
                is_silent=worker.is_silent,
            )
            for worker in shown
        )

    def rooms(self, status: LoopStatus) -> tuple[RoomStatus, ...]:
        """Each room against what it was a second ago."""
        now, readings = time.monotonic(), {} if status.is_over else self._loop.room_readings()
        while len(self._past) > 1 and now - self._past[1][0] >= LAST_S:
            self._past.popleft()
        before_at, before = self._past[0]
        rooms = tuple(
            room_status(name, before.get(name), reading, seconds=now - before_at, uptime_s=status.elapsed_s)
            for name, reading in readings.items()
        )
        if readings and now > self._past[-1][0]:
            self._past.append((now, readings))
        return rooms


def node_statuses(status: LoopStatus) -> tuple[NodeStatus, ...]:
    """The nodes of the cluster, with how many workers each has."""
    here = Counter(worker.node for worker in status.workers)
    nodes = () if status.is_over else with_loads(status.nodes, status.workers)
    return tuple(NodeStatus(workers=here[node.name], **asdict(node)) for node in nodes)


def loader_news(status: LoaderStatus) -> LoaderNews:
    """A loader as a message."""
    return LoaderNews.model_validate(to_builtins(status))


def _activity(status: LoopStatus) -> str:
    """What the run is doing, and what holds it up."""
    if status.evaluating:
        return f"evaluating {status.evaluating}"
    problem = "" if status.loader is None or status.is_over else status.loader.problem
    return f"{status.stage}: {problem}" if problem else status.stage


def possible_commands(stage: Activity) -> tuple[str, ...]:
    """Commands that make sense in a stage."""
    always = ("status", "subscribe", "shutdown")
    if stage in ("IDLE", "DONE", "STOPPED", "ERROR"):
        return ("start_training", *(("export",) if stage != "IDLE" else ()), *always)
    waits = ("start_training_immediately",) if stage == "WAITING FOR DATA" else ()
    return (*waits, "resume" if stage == "PAUSED" else "pause", "checkpoint", "export", "set", "stop", *always)


def idle_status(uptime_s: float) -> Status:
    """What there is to say before a config has been given."""
    return Status(
        stage="IDLE", activity="waiting for start_training", uptime_s=uptime_s, commands=possible_commands("IDLE")
    )


def leela_status(status: Status, *, took_s: float) -> LeelaStatus:
    """The same in the shape of the Leela daemon."""
    schedule = status.schedule
    is_waiting = status.stage not in ("TRAINING", "EVALUATING", "EXPORTING")
    return LeelaStatus(
        dataloader_update_secs=took_s,
        dataloader_1_second={"stage_metrics": [_leela_stage(room, last_second=True) for room in status.rooms]},
        dataloader_total={"stage_metrics": [_leela_stage(room, last_second=False) for room in status.rooms]},
        training_schedule=LeelaSchedule(
            current_stage="WAITING FOR DATA" if is_waiting else "TRAINING",
            completed_epochs_since_start=schedule.cycles,
            new_chunks_since_training_start=schedule.new_data,
            chunks_to_wait=schedule.data_to_wait,
            total_uptime_seconds=status.uptime_s,
            current_training_time_seconds=schedule.training_s,
            previous_training_time_seconds=schedule.previous_training_s,
            current_cycle_time_seconds=schedule.cycle_s,
            previous_cycle_time_seconds=schedule.previous_cycle_s,
        ),
    )


def _leela_stage(room: RoomStatus, *, last_second: bool) -> dict[str, Any]:
    """One of the pipeline's stages. Whole numbers of 64 bits are strings there."""
    count = round(room.rate) if last_second else room.total
    load = room.load if last_second else room.load_total
    fills = [
        (queue.name, str(int(queue.length)), str(int(queue.capacity or 0)))
        for queue in room.queues or (QueueFill(name=room.unit, length=0.0),)
    ]
    return {
        "name": room.name,
        "load_metrics": [] if load is None else [{"name": "load", "load_seconds": load, "total_seconds": 1.0}],
        "queue_metrics": [
            {
                "name": name,
                "put_count": str(count),
                "get_count": str(count),
                "drop_count": str(0 if last_second else room.dropped),
                "queue_fullness": {"min": length, "max": length, "sum": length, "count": "1", "latest": length},
                "queue_capacity": capacity,
            }
            for name, length, capacity in fills
        ],
        "count_metrics": [{"name": room.unit, "count": str(count)}],
    }


def room_status(
    name: str, before: RoomReading | None, now: RoomReading, *, seconds: float, uptime_s: float
) -> RoomStatus:
    """A room against what it was `seconds` ago."""
    since = before or RoomReading()
    load = load_total = None
    if now.busy_s is not None:
        load = _share(now.busy_s - (since.busy_s or 0.0), seconds)
        load_total = _share(now.busy_s, uptime_s)
    return RoomStatus(
        name=name,
        unit=ROOMS[name],
        rate=max(now.count - since.count, 0) / seconds if seconds > 0 else 0.0,
        total=now.count,
        dropped=now.dropped,
        load=load,
        load_total=load_total,
        queues=tuple(
            QueueFill(name=what, length=fill.length, capacity=fill.capacity) for what, fill in now.fills.items()
        ),
    )


def _share(busy_s: float, seconds: float) -> float:
    return max(busy_s, 0.0) / seconds if seconds > 0 else 0.0


def _stage(status: LoopStatus) -> Activity:
    return cast("Activity", RENAMED.get(status.stage, status.stage.upper()))


def _part(status: LoopStatus) -> str:
    if status.stage_count:
        return f"{status.stage_number}/{status.stage_count} {status.stage_name}"
    return status.stage_name


WINDOW_S = 10.0


class Rate:
    """Steps, or shares of a run, per second over the last few seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float]] = deque()

    def update(self, steps: float) -> float:
        """Note where the run is; returns the current rate. With another stage, steps begin again."""
        now = time.monotonic()
        if self._marks and steps < self._marks[-1][1]:
            self._marks.clear()
        self._marks.append((now, steps))
        while now - self._marks[0][0] > WINDOW_S:
            self._marks.popleft()
        elapsed = now - self._marks[0][0]
        return (steps - self._marks[0][1]) / elapsed if elapsed > 0 else 0.0
