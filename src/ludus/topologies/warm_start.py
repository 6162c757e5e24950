"""The warm start as the loop sees it: one worker, once, before anything else; its result is a folder in the run.

Invariant: the folder is there whole or not at all, and depends on the config alone. A warm start that was killed is
done again from its beginning and comes to the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ludus.errors import WorkerError
from ludus.policies.language_shape import LanguageModelShape
from ludus.runtime import Arrived, Lost, Stop, WorkerSpec
from ludus.topologies.rooms import Rooms

NAME = "warm-start"
POLL_S = 0.1


class WarmStart(msgspec.Struct, tag="warm_start", kw_only=True):
    """Play, learn, and write the model into a folder."""

    config: str
    folder: str
    plugins: list[str] = []


class WarmProgress(msgspec.Struct, tag="warm_progress", kw_only=True):
    """How far it is."""

    metrics: dict[str, float]


class WarmDone(msgspec.Struct, tag="warm_done", kw_only=True):
    """The folder is there."""


class WarmBroken(msgspec.Struct, tag="warm_broken", kw_only=True):
    """It cannot go on, and why."""

    error: str


ToWarmStart = WarmStart | Stop
FromWarmStart = WarmProgress | WarmDone | WarmBroken


def warm_up(rooms: Rooms, is_stopping: Callable[[], bool]) -> bool:
    """Make the model that the run's adapters stand on; returns whether it is there (else the run was stopped)."""
    shape = rooms.shape
    if rooms.config.warm_start is None or not isinstance(shape, LanguageModelShape):
        return True
    folder = rooms.run.base
    if not folder.is_dir():
        rooms.telemetry.event("warm_start", games=rooms.config.warm_start.games, epochs=rooms.config.warm_start.epochs)
        with rooms.telemetry.room("warm_start"):
            if not _work(rooms, folder, is_stopping):
                return False
    rooms.shape = shape.standing_on(folder)
    return True


def _work(rooms: Rooms, folder: Path, is_stopping: Callable[[], bool]) -> bool:
    config = rooms.config
    rooms.supervisor.start(
        WorkerSpec(
            name=NAME,
            module="ludus.topologies.warm_start_worker",
            replies=FromWarmStart,
            threads=config.runtime.threads or 1,
            stall_s=config.runtime.stall_s,
        )
    )
    order = WarmStart(config=config.model_dump_json(), folder=str(folder), plugins=list(rooms.plugins))
    rooms.supervisor.send(NAME, order)
    try:
        while not is_stopping():
            for event in rooms.supervisor.poll(POLL_S):
                if _absorb(rooms, event, order):
                    return True
        return False
    finally:
        rooms.supervisor.dismiss(NAME)


def _absorb(rooms: Rooms, event: Arrived | Lost, order: WarmStart) -> bool:
    """Whether it is done."""
    if isinstance(event, Lost):
        rooms.telemetry.event("worker_lost", worker=NAME, reason=event.reason, log_tail=event.log_tail)
        rooms.supervisor.send(NAME, order)
    elif isinstance(event.message, WarmProgress):
        rooms.telemetry.metrics(0, event.message.metrics)
    elif isinstance(event.message, WarmBroken):
        raise WorkerError(f"the warm start cannot go on: {event.message.error}")
    return isinstance(event, Arrived) and isinstance(event.message, WarmDone)
