"""Expert rows and preference pairs as the loop sees them: gathered once by a worker, before anything is played.

Invariant: `expert/` and `pairs/` of a run are there whole or not at all, and never change. A gathering that was killed
is done again from its beginning. The files that rows came from are not needed any more, but one that has changed since
is refused: the config would say something that is not so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from ludus.buffer import read_facts
from ludus.config import ExpertConfig, PairsConfig
from ludus.errors import ConfigError, WorkerError
from ludus.lm.language_shape import LanguageModelShape
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.workers import run_one_shot
from ludus.runtime import Stop
from ludus.storage.atomic import sha256_file
from ludus.storage.run_directory import RunDirectory


class Gather(msgspec.Struct, tag="gather", kw_only=True):
    """Fetch rows, make them into tokens, and write them into the run's folders."""

    config: str
    model: str
    """The path of the model whose tokenizer counts; empty for a network."""
    expert: str = ""
    pairs: str = ""
    plugins: list[str] = []


class GatherProgress(msgspec.Struct, tag="gather_progress", kw_only=True):
    """How far it is."""

    metrics: dict[str, float]


class GatherDone(msgspec.Struct, tag="gather_done", kw_only=True):
    """The folders are there."""

    metrics: dict[str, float]
    refused: list[str]
    """The first of the rows that could not be used, as `file:line: reason`."""


class GatherRefused(msgspec.Struct, tag="gather_refused", kw_only=True):
    """What was asked for cannot be had: bad input, one line per problem."""

    problems: list[str]


class GatherBroken(msgspec.Struct, tag="gather_broken", kw_only=True):
    """It cannot go on, and why."""

    error: str


ToGathering = Gather | Stop
FromGathering = GatherProgress | GatherDone | GatherRefused | GatherBroken


def gather(context: RunContext, is_stopping: Callable[[], bool]) -> bool:
    """See to it that the rows are there; returns whether they are (else the run was stopped).

    Call it after the warm start: the model is then that of `context.shape`.

    Raises:
        ConfigError: rows cannot be had, or a file has changed since this run took its rows from it.
    """
    check_unchanged(context.run)
    buffer = context.config.buffer
    asked = (("expert", buffer.expert, context.run.expert), ("pairs", buffer.pairs, context.run.pairs))
    wanted: dict[str, ExpertConfig | PairsConfig] = {
        name: config for name, config, folder in asked if config is not None and not _is_there(folder)
    }
    if not wanted:
        return True
    context.telemetry.event("gathering", stores=sorted(wanted))
    shape = context.shape
    order = Gather(
        config=context.config.model_dump_json(),
        model=shape.model.path if isinstance(shape, LanguageModelShape) else "",
        plugins=list(context.plugins),
        **{name: config.model_dump_json() for name, config in wanted.items()},
    )
    with context.telemetry.room("gathering"):
        module, is_done = "ludus.ingest.gathering_worker", partial(_is_done, context)
        return run_one_shot(context, "gathering", module, FromGathering, order, is_done, is_stopping)


def check_unchanged(run: RunDirectory) -> None:
    """Refuse to go on when a file that rows came from is there and is another now.

    Raises:
        ConfigError: one line for each such file.
    """
    changed = [line for folder in (run.expert, run.pairs) if _is_there(folder) for line in _changed_files(folder)]
    if changed:
        raise ConfigError(*changed)


def _changed_files(folder: Path) -> Iterator[str]:
    for name, digest in read_facts(folder).get("files", {}).items():
        if Path(name).is_file() and sha256_file(Path(name)) != digest:
            yield (
                f"buffer.{folder.name}: {name} is not what it was when this run took its rows from it; "
                "put it back as it was, or choose another --run-dir"
            )


def _is_there(folder: Path) -> bool:
    return (folder / "rows.json").is_file()


def _is_done(context: RunContext, message: FromGathering) -> bool:
    if isinstance(message, GatherRefused):
        raise ConfigError(*message.problems)
    if isinstance(message, GatherBroken):
        raise WorkerError(f"rows cannot be gathered: {message.error}")
    context.telemetry.metrics(0, message.metrics)
    if isinstance(message, GatherDone):
        context.telemetry.event("gathered", refused=message.refused, **message.metrics)
    return isinstance(message, GatherDone)
