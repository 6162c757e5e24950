"""A run of one policy on one directory: its controls, its status, its beginning and its end around the loop."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ludus.config import RunConfig, check_resumable, dump_config, resolve, with_values
from ludus.errors import ConfigError, LudusError, StorageError, describe
from ludus.ingest.gathering import gather
from ludus.ingest.warm_start import warm_up
from ludus.loop import Loop
from ludus.orchestrator import Playables, RunContext, RunStore, check_parts, open_context
from ludus.plugin_frames import plugin_place
from ludus.runs.driver import CycleStatus, Driveable, Status
from ludus.runs.opening import open_loop
from ludus.runs.plugin_record import recall_plugins, record_plugins
from ludus.runtime import Launcher, Stop
from ludus.storage.atomic import sweep_leftovers, write_text
from ludus.storage.lock import RunLock
from ludus.storage.read_only import leave, work_in
from ludus.storage.run_directory import RunDirectory, move_to_earlier
from ludus.telemetry import RoomReading, SinkStatus, attach_trackers, check_trackers

log = logging.getLogger(__name__)

LOOP_LOG = "loop.log"
"""Where the loop's own process writes the traceback of what ended it, beside the workers' logs."""


class DirectoryRun(Driveable):
    """A run on one directory, of one policy or of a population: its telemetry and its files while it works."""

    config: RunConfig
    run: RunDirectory
    whole: Launcher | None = None
    """Of a run that is a part of another: what that starts its workers with."""
    _context: RunContext | None = None

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Where metrics go besides the run's own files, and what was lost on the way."""
        return () if self._context is None else self._context.telemetry.sinks_status()

    def room_readings(self) -> dict[str, RoomReading]:
        """What each room has done since this start."""
        return {} if self._context is None else self._context.telemetry.meters.read()

    @contextmanager
    def _opened(
        self, config: RunConfig, playables: Playables, lm_config: RunConfig | None = None, *, grace_s: float
    ) -> Iterator[tuple[RunContext, RunStore]]:
        """The run's parts under its lock; at the end its workers get `grace_s` to end by themselves."""
        self.run.prepare()
        with RunLock(self.run.path):
            if self._from_scratch:
                begin_from_scratch(self.run.path)
            _open_directory(self.run, self.config)
            write_lm_config(self.run, lm_config)
            record_plugins(self.run, self._plugins)
            store = RunStore(config, self.run)
            logs = self.run.new_attempt()
            work_in(self.run.path)
            context = open_context(config, playables, self.run, logs, self._plugins, self.whole)
            self._context = context
            context.telemetry.event("opened")
            try:
                context.launcher.open()
                attach_trackers(context.telemetry, self.config, self.run, self._sinks)
                yield context, store
            except BaseException as error:
                context.telemetry.event("failed", error=describe(error))
                keep_traceback(error, logs)
                raise
            finally:
                self._record_rooms(context)
                context.supervisor.stop(Stop(), grace_s=grace_s)
                context.telemetry.close()
                store.close()
                leave(self.run.path)

    def _record_rooms(self, context: RunContext) -> None:
        """Leave what the rooms did for whoever looks at the run when its process is gone."""
        rooms = {name: asdict(reading) for name, reading in self.room_readings().items()}
        uptime_s = time.monotonic() - self._began
        loader = to_builtins(self.status().loader)
        schedule = asdict(self.schedule())
        context.telemetry.event("rooms", uptime_s=uptime_s, rooms=rooms, schedule=schedule, loader=loader)


class SingleRun(DirectoryRun):
    """One policy in training, or measured: `SingleRun(config).run_to_end()`, or `start()` and drive it."""

    until: int | None = None
    """A number of steps to stop at before `train.steps` are over."""
    _loop: Loop | None = None

    def _check(self, config: RunConfig, path: Path) -> None:
        if config.stages:
            raise ConfigError("stages: this config has some; run it with StagedRun (or make_run), not with SingleRun")
        if config.population is not None and config.population.oracle == "learned":
            raise ConfigError("population: its learners are runs; run it with PopulationRun (or make_run)")
        self.config = resolve(config)
        check_trackers(self.config)
        self.run = RunDirectory(path)
        recall_plugins(self.run)
        self._playables = check_parts(self.config, self.run)

    def status(self) -> Status:
        """What the run is doing now."""
        loop, context = self._loop, self._context
        counters: dict[str, Any] = {} if loop is None else loop.milestones.progress.counters()
        return Status(
            stage=self.controls.shown,
            run=self.config.name,
            run_dir=str(self.run.path),
            total_steps=self.config.train.steps or 0,
            share_done=0.0 if loop is None else loop.milestones.share_done,
            length="" if loop is None else loop.milestones.length,
            elapsed_s=time.monotonic() - self._began,
            error=self._failure,
            evaluating="" if loop is None or self.controls.is_over else loop.evaluator.evaluation.progress,
            silent_workers=() if context is None else context.supervisor.silent,
            workers=() if context is None else context.supervisor.read(),
            nodes=() if context is None else context.launcher.nodes(),
            loader=None if loop is None else loop.learner.loader_status,
            metrics={} if context is None else context.telemetry.latest,
            **counters,
        )

    def set_keys(self, values: Mapping[str, Any]) -> None:
        """Change keys of the config of a live run, from the next update on."""
        config, loop, context = with_values(self.config, values), self._loop, self._context
        if loop is None or context is None or self.controls.is_over:
            raise LudusError(f"nothing can be set: the run is {self.controls.activity}")
        self.config = config
        loop.milestones.set_config(config)
        write_text(self.run.config, dump_config(config))
        context.telemetry.event("set", values=dict(values))

    def schedule(self) -> CycleStatus:
        """Where the run is in its rounds of waiting and training."""
        if self._loop is None:
            return CycleStatus()
        progress = self._loop.milestones.progress
        return self._loop.cycle.status(updates=progress.update if self.config.cycle is None else progress.unpublished)

    def _work(self) -> None:
        with self._opened(self.config, self._playables, grace_s=1.0) as (context, store):
            ready = self._prepare(context)
            if ready is not None:
                self._loop = open_loop(ready, self._playables, store, self.controls, until=self.until)
                try:
                    self._loop.run(strict_resume=self._strict_resume)
                finally:
                    self._loop.close()

    def _prepare(self, context: RunContext) -> RunContext | None:
        """Make the model that the policy stands on and gather offline rows; None when the run was stopped first."""
        if self.config.mode == "evaluate":
            return context
        if self.config.warm_start is not None:
            self.controls.enter("warming up")
        ready = warm_up(context, lambda: self.is_stopping)
        return ready if ready is not None and gather(ready, lambda: self.is_stopping) else None


def begin_from_scratch(path: Path) -> None:
    """Make room for another run, under the lock of the one that is there; its files stay, where people are told."""
    if (moved_to := move_to_earlier(path)) is not None:
        log.warning("beginning from scratch; the run that was in %s is now in %s", path, moved_to)


def keep_traceback(error: BaseException, logs: Path) -> None:
    """Write where an error of somebody else's code came from into the attempt's logs, and let the error say so."""
    if isinstance(error, Exception) and (not isinstance(error, LudusError) or plugin_place(error)):
        with suppress(StorageError, OSError):  # the error itself is worth more
            write_text(logs / LOOP_LOG, "".join(traceback.format_exception(error)))
            error.add_note(f"the traceback is in {logs / LOOP_LOG}")


def write_lm_config(run: RunDirectory, lm_config: RunConfig | None) -> None:
    """Let a run know the config that language models sample by, where there are any."""
    if lm_config is not None:
        write_text(run.lm_config, lm_config.model_dump_json())


def _open_directory(run: RunDirectory, config: RunConfig) -> None:
    """Make a run's directory, or check that the one that is there can be resumed under this config; under its lock."""
    sweep_leftovers(run.path)
    text = dump_config(config)
    if not run.is_run():
        run.create(text)
        return
    run.open()
    check_resumable(run.config.read_text(), config)
    write_text(run.config, text)
