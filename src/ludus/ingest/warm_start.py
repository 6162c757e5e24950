"""The warm start as the loop sees it: one worker, once, before anything else; its result is a folder in the run.

Invariant: the folder is there whole or not at all, and depends on the config alone. A warm start that was killed is
done again from its beginning and comes to the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from ludus.errors import WorkerError
from ludus.lm.language_shape import LanguageModelShape
from ludus.orchestrator.one_shot_worker import run_one_shot
from ludus.orchestrator.rooms import Rooms
from ludus.orchestrator.worker_imports import worker_imports
from ludus.runtime import Stop, WorkerSpec

NAME = "warm-start"


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
    spec = WorkerSpec(
        name=NAME,
        module="ludus.ingest.warm_start_worker",
        replies=FromWarmStart,
        threads=config.runtime.threads or 1,
        stall_s=config.runtime.stall_s,
        imports=worker_imports(config),
    )
    order = WarmStart(config=config.model_dump_json(), folder=str(folder), plugins=list(rooms.plugins))
    return run_one_shot(rooms, spec, order, partial(_is_done, rooms), is_stopping)


def _is_done(rooms: Rooms, message: FromWarmStart) -> bool:
    if isinstance(message, WarmProgress):
        rooms.telemetry.metrics(0, message.metrics)
    elif isinstance(message, WarmBroken):
        raise WorkerError(f"the warm start cannot go on: {message.error}")
    return isinstance(message, WarmDone)
