"""A run in stages: one `SingleRun` after the other behind the same controls.

Invariant: a stage begins only when the one before it is done, and is never done twice. Each is an ordinary run in a
directory of its own, so that killing this at any moment costs what killing that run costs; which stages are done is in
`stages.json`, and a stage that finished without being noted there finds that out itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ludus.config import RunConfig, changed_keys, dotted, dump_config, resolve_stages, stage_folder, stage_path
from ludus.errors import ConfigError, LudusError
from ludus.orchestrator import check_parts
from ludus.orchestrator.policy_start import follow_move
from ludus.runs.driver import CycleStatus, Driveable, Status
from ludus.runs.population import PopulationRun
from ludus.runs.single import SingleRun, begin_from_scratch
from ludus.storage.atomic import sweep_leftovers, write_text
from ludus.storage.lock import RunLock
from ludus.storage.read_only import leave, work_in
from ludus.storage.run_directory import BegunStage, RunDirectory, StagedDirectory
from ludus.telemetry import RoomReading, Sink, SinkStatus, check_trackers, name_of


def make_run(
    config: RunConfig,
    run_dir: Path | str | None = None,
    *,
    plugins: Sequence[str] = (),
    strict_resume: bool = False,
    from_scratch: bool = False,
    sinks: Sequence[Sink] = (),
) -> AnyRun:
    """The loop for a config: of a run in stages, of a population that learns, or of one policy."""
    kind: type[AnyRun] = SingleRun
    if config.stages:
        kind = StagedRun
    elif config.population is not None and config.population.oracle == "learned":
        kind = PopulationRun
    return kind(config, run_dir, plugins=plugins, strict_resume=strict_resume, from_scratch=from_scratch, sinks=sinks)


class StagedRun(Driveable):
    """The stages of one config on one directory: `StagedRun(config).run_to_end()`, or `start()` and drive it."""

    _index = 0
    _loop: SingleRun | None = None

    def _check(self, config: RunConfig, path: Path) -> None:
        if not config.stages:
            raise ConfigError("stages: there are none; a run without stages is a SingleRun")
        self._whole = config
        self._directory = StagedDirectory(path)
        self.stages = resolve_stages(config, self._directory.path)
        self._folders = [stage_folder(index, stage.name) for index, stage in enumerate(config.stages)]
        check_stages(self.stages)

    @property
    def config(self) -> RunConfig:
        """The config of the stage that is being run, or was run last."""
        return self.stages[self._index]

    @property
    def run(self) -> RunDirectory:
        """The directory of that stage."""
        return self._directory.stage(self._folders[self._index])

    @property
    def runs(self) -> list[RunDirectory]:
        """The directories of the stages that have begun."""
        return [self._directory.stage(stage.folder) for stage in self._directory.read()]

    def status(self) -> Status:
        """What the run is doing now."""
        loop, index = self._loop, self._index
        nothing = Status(stage="starting", run="", run_dir="", total_steps=self.config.train.steps or 0)
        inner = nothing if loop is None else loop.status()
        return replace(
            inner,
            stage=self.controls.activity if self.controls.is_over or inner.is_over else inner.stage,
            run=self._whole.name,
            run_dir=str(self._directory.path),
            stage_name=self._whole.stages[index].name,
            stage_number=index + 1,
            stage_count=len(self.stages),
            elapsed_s=time.monotonic() - self._began,
            error=self._failure,
        )

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Where metrics go besides the run's own files, and what was lost on the way."""
        return () if self._loop is None else self._loop.sinks()

    def room_readings(self) -> dict[str, RoomReading]:
        """What each room has done since the stage was started."""
        return {} if self._loop is None else self._loop.room_readings()

    def schedule(self) -> CycleStatus:
        """Where the stage is in its rounds."""
        loop = self._loop
        return super().schedule() if loop is None else loop.schedule()

    def train_now(self) -> Status:
        """Do not wait any longer for the data of this round."""
        if self._loop is not None:
            self._loop.train_now()
        return self.status()

    def checkpoint(self, timeout_s: float = 60.0) -> Status:
        """Save the state of the stage after the current update; returns when it is on disk."""
        if self._loop is None:
            raise LudusError("no checkpoint: no stage of this run has begun yet")
        self._loop.checkpoint(timeout_s)
        return self.status()

    def set_keys(self, values: Mapping[str, Any]) -> None:
        """Change keys of the stage that is going on; the next stage goes by the config again."""
        if self._loop is None:
            raise LudusError("nothing can be set: no stage of this run has begun yet")
        self._loop.set_keys(values)

    def _ask(self, *, paused: bool | None = None, stopping: bool = False, checkpoint: bool = False) -> Status:
        super()._ask(paused=paused, stopping=stopping)
        if self._loop is not None:
            self.controls.pass_on(self._loop)
        return self.status()

    def _work(self) -> None:
        self._directory.prepare()
        with RunLock(self._directory.path):
            sweep_leftovers(self._directory.path)
            if self._from_scratch:
                begin_from_scratch(self._directory.path)
            begun = self._open()
            work_in(self._directory.path)
            try:
                for index in range(len(self.stages)):
                    self._loop, self._index = None, index
                    if index >= len(begun) or not begun[index].is_done:
                        begun = self._do(index, begun)
                    if self.is_stopping:
                        return
            finally:
                leave(self._directory.path)
                for sink in self._sinks:
                    sink.close()

    def _open(self) -> tuple[BegunStage, ...]:
        """The stages that have begun, after a look at whether the config still says the same of them."""
        begun = self._directory.read()
        self._check_unchanged(begun)
        if not begun:
            self._directory.write(())
        write_text(self._directory.config, dump_config(self._whole))
        return begun

    def _do(self, index: int, begun: tuple[BegunStage, ...]) -> tuple[BegunStage, ...]:
        """Run one stage, from its beginning or from where it was; returns the stages that have begun."""
        folder, before = self._folders[index], begun[:index]
        if index >= len(begun):
            self._directory.write([*before, BegunStage(folder=folder)])
        self._prepare(index)
        loop = SingleRun(
            self.stages[index],
            self._directory.stage(folder).path,
            plugins=self._plugins,
            strict_resume=self._strict_resume,
            sinks=[_Lasting(sink) for sink in self._sinks],
        )
        self._loop = loop
        loop.start()
        self.controls.pass_on(loop)
        is_done = loop.wait().stage == "done"
        if is_done:
            self._directory.write([*before, BegunStage(folder=folder, is_done=True)])
        return (*before, BegunStage(folder=folder, is_done=is_done))

    def _prepare(self, index: int) -> None:
        """Make the stage's directory, and let what its model stands on be found there, also when all is moved."""
        run, text = self._directory.stage(self._folders[index]), dump_config(self.stages[index])
        run.prepare()
        if not run.is_run():
            with RunLock(run.path):
                run.create(text)
        elif index:
            follow_move(run, self.stages[index].policy.start)
        if index and self._directory.stage(self._folders[index - 1]).base.is_dir():
            with suppress(FileExistsError):
                os.symlink(Path("..", self._folders[index - 1], "base"), run.base)

    def _check_unchanged(self, begun: Sequence[BegunStage]) -> None:
        """Refuse other stages than those that have begun, and settings that those did not begin with.

        Raises:
            ConfigError: one line for each difference.
        """
        lines: list[str] = []
        for index, stage in enumerate(begun):
            folder = self._folders[index] if index < len(self._folders) else "nothing"
            if stage.folder != folder:
                path = dotted(stage_path(index, ("name",)))
                lines.append(f"{path}: the run has {stage.folder}, now {folder}; write it as before{_OR_ELSE}")
            elif self._directory.stage(folder).is_run():
                lines += self._changes(index, is_done=stage.is_done)
        if lines:
            raise ConfigError(*lines)

    def _changes(self, index: int, *, is_done: bool) -> Iterator[str]:
        """What the config says of a stage and may not, since it began otherwise."""
        saved = self._directory.stage(self._folders[index]).read_config()
        done = ", but this stage is done" if is_done else ""
        for key, what in changed_keys(
            saved, self.stages[index], also=("train.steps", "train.updates", "train.hours") if is_done else ()
        ):
            if key != ("policy", "start") or not index:
                yield f"{dotted(stage_path(index, key))}: {what}{done}; write it as before{_OR_ELSE}"


AnyRun = SingleRun | StagedRun | PopulationRun

_OR_ELSE = ", or choose another --run-dir"


class _Lasting:
    """A sink that outlives the stage that writes to it."""

    def __init__(self, sink: Sink) -> None:
        self.name = name_of(sink)
        self._sink = sink

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Take one metric line; steps begin again with every stage."""
        self._sink.metrics(step, values)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Take one event."""
        self._sink.event(kind, fields)

    def close(self) -> None:
        """There may be another stage."""


def check_stages(stages: Sequence[RunConfig]) -> None:
    """See to it that every part that any stage names exists, before hours are spent on the first.

    Args:
        stages: as `resolve_stages` gives them; one, when the config has none.

    Raises:
        ConfigError: one line for each part that does not.
    """
    problems: dict[str, None] = {}
    for index, stage in enumerate(stages):
        # Where a later stage begins is not there yet.
        policy = stage.policy.model_copy(update={"start": None}) if index else stage.policy
        try:
            check_trackers(stage)
            check_parts(stage.model_copy(update={"policy": policy}))
        except ConfigError as error:
            where = f"{dotted(('stages', index))}: " if len(stages) > 1 else ""
            problems |= {f"{where}{line}": None for line in error.problems}
    if problems:
        raise ConfigError(*problems)
