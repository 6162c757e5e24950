"""The warm start as the loop sees it: one worker, once, before anything else; its result is a folder in the run.

Invariant: the folder is there whole or not at all, and depends on the config alone. A warm start that was killed is
done again from its beginning and comes to the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from ludus.errors import WorkerError
from ludus.lm.language_shape import LanguageModelShape
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.workers import run_one_shot
from ludus.runtime import Stop


class WarmStart(msgspec.Struct, tag="warm_start", kw_only=True):
    """Play, learn, and write the model into the run's folder for it."""

    config: str
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


def warm_up(context: RunContext, is_stopping: Callable[[], bool]) -> RunContext | None:
    """Make the model that the run's adapters stand on; returns the run on that model, or None when it was stopped."""
    shape, warm_start = context.shape, context.config.warm_start
    if warm_start is None or not isinstance(shape, LanguageModelShape):
        return context
    folder = context.run.base
    if not folder.is_dir():
        context.telemetry.event("warm_start", games=warm_start.games, epochs=warm_start.epochs)
        with context.telemetry.room("warm_start"):
            order = WarmStart(config=context.config.model_dump_json(), plugins=list(context.plugins))
            module, is_done = "ludus.ingest.warm_start_worker", partial(_is_done, context)
            if not run_one_shot(context, "warm-start", module, FromWarmStart, order, is_done, is_stopping):
                return None
    return replace(context, shape=shape.standing_on(folder))


def _is_done(context: RunContext, message: FromWarmStart) -> bool:
    if isinstance(message, WarmProgress):
        context.telemetry.metrics(0, message.metrics)
    elif isinstance(message, WarmBroken):
        raise WorkerError(f"the warm start cannot go on: {message.error}")
    return isinstance(message, WarmDone)
