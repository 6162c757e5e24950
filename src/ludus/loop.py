"""The closed loop: tasks -> explore -> experience -> buffer -> train -> policies -> league -> tasks.

Read this file first. One turn of `_train` is one update. The topology (fused or split) decides where the rooms run;
everything that must happen at one point in time (evaluations settled, state saved, version published, league told)
happens here, between two updates, in the same order in both. That order is what makes a resume exact.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ludus.config import RunConfig, check_resumable, dump_config, resolve, with_values
from ludus.errors import ConfigError, CorruptRecord, LudusError
from ludus.ingest.gathering import gather
from ludus.ingest.warm_start import warm_up
from ludus.orchestrator import Rooms, TakesData, Topology, UpdateReport, check_parts, crosses, make_topology, open_rooms
from ludus.plugins import load_plugins
from ludus.policies.export_folder import ExportFolder
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.runs.cycle import Cycle
from ludus.runs.driver import CycleStatus, Driveable, Stage, Status
from ludus.storage.atomic import sweep_leftovers, write_text
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import RoomReading, Sink, SinkStatus, attach_trackers, check_trackers

log = logging.getLogger(__name__)

POLL_S = 0.05
WAIT_S = 0.1
"""How long to sleep between two looks for data."""


class Loop(Driveable):
    """One run on one directory: `Loop(config).run_to_end()`, or `start()` and drive it."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path | str | None = None,
        *,
        plugins: Sequence[str] = (),
        strict_resume: bool = False,
        sinks: Sequence[Sink] = (),
        until: int | None = None,
    ) -> None:
        """A run of a config on a directory; `until` is a number of steps to stop at before `train.steps` are over."""
        super().__init__()
        load_plugins(plugins)
        if config.stages:
            raise ConfigError("stages: this config has some; run it with StagedLoop (or make_loop), not with Loop")
        if config.population is not None and config.population.oracle == "learned":
            raise ConfigError("population: learners make it; run it with PopulationLoop (or make_loop), not with Loop")
        self.config = resolve(config)
        check_trackers(self.config)
        self.run = RunDirectory(Path(run_dir) if run_dir is not None else config.home)
        self._games = check_parts(self.config, self.run)
        self._plugins = tuple(str(plugin) for plugin in plugins)
        self._strict_resume = strict_resume
        self._sinks = tuple(sinks)
        self._until = self.config.train.steps if until is None else min(until, self.config.train.steps)
        self._cycle = Cycle(self.config.cycle)
        self._rooms: Rooms | None = None
        self._reported = (time.monotonic(), 0)

    def status(self) -> Status:
        """What the run is doing now."""
        rooms = self._rooms
        counters: dict[str, Any] = {} if rooms is None else rooms.progress.counters()
        return Status(
            stage=self._stage,
            run=self.config.name,
            run_dir=str(self.run.path),
            total_steps=self.config.train.steps,
            elapsed_s=time.monotonic() - self._began,
            error="" if self._error is None else f"{type(self._error).__name__}: {self._error}",
            metrics={} if rooms is None else rooms.telemetry.latest,
            **counters,
        )

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Where metrics go besides the run's own files, and what was lost on the way."""
        return () if self._rooms is None else self._rooms.telemetry.sinks_status()

    def room_readings(self) -> dict[str, RoomReading]:
        """What each room has done since this start."""
        return {} if self._rooms is None else self._rooms.telemetry.meters.read()

    def set_keys(self, values: Mapping[str, Any]) -> None:
        """Change keys of the config while the run is going; it goes by them from the next update on."""
        config, rooms = with_values(self.config, values), self._rooms
        if rooms is None or self._is_over:
            raise LudusError(f"nothing can be set: the run is {self._stage}")
        is_whole = self._until == self.config.train.steps
        self.config = rooms.config = config
        if is_whole:
            self._until = config.train.steps
        write_text(self.run.config, dump_config(config))
        rooms.telemetry.event("set", values=dict(values))

    def schedule(self) -> CycleStatus:
        """Where the run is in its rounds of waiting and training."""
        rooms = self._rooms
        if rooms is None:
            return self._cycle.status(updates=0)
        progress = rooms.progress
        return self._cycle.status(updates=progress.update if self.config.cycle is None else progress.unpublished)

    def _work(self) -> None:
        self.run.prepare()
        with RunLock(self.run.path):
            open_run_directory(self.run, self.config)
            rooms = open_rooms(self.config, self._games, self.run, self.run.new_attempt(), self._plugins)
            topology: Topology | None = None
            try:
                topology = make_topology(rooms)
                self._rooms = rooms
                attach_trackers(rooms.telemetry, self.config, self.run, self._sinks)
                if self.config.mode == "evaluate":
                    self._measure(rooms, topology)
                elif self._warm_up(rooms) and self._gather(rooms):
                    self._begin(rooms, topology)
                    self._train(rooms, topology)
                    self._end(rooms, topology)
            except BaseException as error:
                rooms.telemetry.event("failed", error=f"{type(error).__name__}: {error}")
                raise
            finally:
                if topology is not None:
                    topology.close()
                rooms.close()

    def _warm_up(self, rooms: Rooms) -> bool:
        """Make the model that the policy stands on; returns whether it is there (else the run was stopped)."""
        if self.config.warm_start is not None:
            self._enter("warming up")
        return warm_up(rooms, lambda: self._stopping)

    def _gather(self, rooms: Rooms) -> bool:
        """Fetch what is learnt from besides play; returns whether it is there (else the run was stopped)."""
        buffer = self.config.buffer
        return gather(rooms, buffer.expert, buffer.pairs, lambda: self._stopping)

    def _begin(self, rooms: Rooms, topology: Topology) -> None:
        """Start from the newest whole checkpoint, or from nothing."""
        saved = rooms.checkpoints.latest(strict=self._strict_resume)
        if saved is not None:
            self._restore(rooms, saved)
        topology.begin(saved)
        if saved is None:
            rooms.pool.add_snapshot(rooms.learner, 0)
            if self.config.evaluate.at_start:
                rooms.evaluation.issue(rooms.learner, step=0, is_final=False)
            self._commit(rooms, topology)
        self._publish(rooms, topology)
        self._export(rooms)
        self._reported = (time.monotonic(), rooms.progress.steps)
        rooms.telemetry.event("started", resumed=saved is not None, **rooms.progress.counters())
        self._enter("training")

    def _train(self, rooms: Rooms, topology: Topology) -> None:
        while not self._is_enough(rooms) and not topology.is_exhausted:
            self._obey(rooms, topology)
            if self._stopping:
                return
            if self._has_data(rooms, topology):
                with self._cycle.training():
                    report = topology.advance()
                self._conclude(rooms, topology, report)

    def _has_data(self, rooms: Rooms, any_topology: Topology) -> bool:
        """Whether an update can be trained now. If not, some of what is new was taken in, or a moment has gone by.

        Rows of feeds come in while there is a checkpoint of this very update: a resume then finds the same rows.
        """
        if not (self.config.cycle or self.config.buffer.feeds):
            return True
        topology = cast(TakesData, any_topology)  # the config refuses to wait in any other
        if not self._cycle.is_training and not self._begins_round(rooms, topology):
            return False
        topology.most_orders = self._cycle.updates_left(rooms.progress.unpublished)
        is_whole = self.config.cycle is not None or not self._is_saved(rooms) or topology.take_in(0)
        if is_whole and not topology.is_dry:
            self._cycle.see(topology.taken_in)
            self._be("training")
            return True
        if is_whole:
            self._commit(rooms, topology)
            is_whole = topology.take_in(0)
        return self._idle(topology, is_whole)

    def _begins_round(self, rooms: Rooms, topology: TakesData) -> bool:
        cycle = self._cycle
        is_whole = topology.take_in(cycle.missing)
        cycle.see(topology.taken_in)
        if not is_whole or (cycle.missing and not self._hurried):
            return self._idle(topology, is_whole)
        rooms.telemetry.event("round_began", round=cycle.rounds + 1, new_sequences=cycle.begin_round())
        return True

    def _idle(self, topology: TakesData, is_whole: bool) -> bool:
        """Look after the workers, and wait a little if nothing more is there; never true."""
        if is_whole:
            self._be("waiting for data")
        topology.tend(WAIT_S if is_whole else 0.0)
        return False

    def _is_saved(self, rooms: Rooms) -> bool:
        return rooms.progress.update in rooms.checkpoints.list()

    def _is_enough(self, rooms: Rooms) -> bool:
        return rooms.progress.steps >= self._until or bool(rooms.early_stopping.reason)

    def _conclude(self, rooms: Rooms, topology: Topology, report: UpdateReport) -> None:
        """What happens between two updates."""
        progress, config = rooms.progress, self.config
        progress.count(report)
        rooms.early_stopping.note(report)
        is_last, interval = self._is_enough(rooms), topology.publish_interval
        version_due = is_last or (interval is not None and progress.unpublished >= interval)
        since, may_publish = progress.published_steps, version_due or interval is None
        snapshot_due = is_last or (may_publish and crosses(config.league.snapshot_every, since, progress.steps))
        evaluation_due = may_publish and crosses(config.evaluate.every, since, progress.steps) and not is_last
        publishes = version_due or snapshot_due or evaluation_due
        if evaluation_due:
            self._settle(rooms, topology)
        if publishes:
            self._make_version(rooms)
            self._cycle.end_round(rooms.progress.version)
            self._hurried = False
        if snapshot_due:
            rooms.pool.add_snapshot(rooms.learner, progress.steps)
            rooms.pool.retire()
            topology.refresh_opponents()
        if evaluation_due:
            rooms.evaluation.issue(rooms.learner, step=progress.steps, is_final=False)
        if publishes or crosses(config.checkpoint.every, progress.update - 1, progress.update):
            self._commit(rooms, topology)
        if publishes:
            self._publish(rooms, topology)
            self._export(rooms)
        self._report(rooms, report)

    def _end(self, rooms: Rooms, topology: Topology) -> None:
        """Leave a state to resume from or, when training is done, the final measurement."""
        if self._stopping:
            self._enter("stopping")
            self._commit(rooms, topology)
        elif (
            rooms.progress.steps < self.config.train.steps
            and not rooms.early_stopping.reason
            and self._is_enough(rooms)
        ):
            self._commit(rooms, topology)
        elif not rooms.progress.finished:
            if rooms.early_stopping.reason:
                rooms.telemetry.event("learnt_enough", reason=rooms.early_stopping.reason, step=rooms.progress.steps)
            self._enter("evaluating")
            self._settle(rooms, topology, may_stop=True)
            self._publish_rest(rooms, topology)
            if rooms.evaluation.job is None:
                rooms.evaluation.issue(rooms.learner, step=rooms.progress.steps, is_final=True)
                topology.submit_evaluation(rooms.evaluation.pending_tasks())
            self._settle(rooms, topology, may_stop=True)
            if rooms.evaluation.job is None and topology.drain(lambda: self._stopping):
                rooms.progress.finish()
                self._commit(rooms, topology)
        rooms.telemetry.event("ended", stopped=self._stopping, **rooms.progress.counters())

    def _measure(self, rooms: Rooms, topology: Topology) -> None:
        """Mode evaluate: nothing is trained; the versions of another run are measured one after the other."""
        saved = rooms.checkpoints.latest(strict=self._strict_resume)
        if saved is not None:
            self._restore(rooms, saved)
        topology.begin(saved)
        rooms.telemetry.event("started", resumed=saved is not None, **rooms.progress.counters())
        while not topology.is_exhausted and not self._stopping:
            self._enter("evaluating")
            report, is_issued = topology.advance(), rooms.evaluation.job is not None
            scores = self._settle(rooms, topology, may_stop=True)
            if is_issued and rooms.evaluation.job is None:
                rooms.telemetry.event("measured", policy=str(rooms.learner), step=rooms.progress.steps, scores=scores)
                rooms.progress.count(report)
                self._commit(rooms, topology)
                self._obey(rooms, topology)
        rooms.telemetry.event("ended", stopped=self._stopping, **rooms.progress.counters())

    # -- the parts -------------------------------------------------------------------------------------------------

    def _restore(self, rooms: Rooms, saved: Checkpoint) -> None:
        for update in rooms.checkpoints.list():
            try:
                rooms.retain(rooms.checkpoints.load(update))
            except CorruptRecord as error:
                log.warning("checkpoint %d is damaged (%s); it could not be gone back to", update, error)
        rooms.progress.load_state(saved.state["progress"])
        rooms.pool.load_state(saved.state["league"])
        rooms.evaluation.load_state(saved.state["evaluation"])
        rooms.tasks.load_state(saved.state.get("tasks", {}))
        rooms.early_stopping.load_state(saved.state.get("enough", rooms.early_stopping.state()))
        taken_in = saved.state.get("buffer", {}).get("counters", {}).get("inserted", 0)
        self._cycle.load_state(saved.state.get("cycle"), taken_in=taken_in)
        if rooms.progress.steps < self.config.train.steps and not rooms.early_stopping.reason:
            rooms.progress.finished = False

    def _make_version(self, rooms: Rooms) -> None:
        """What has been learnt is a version from now on."""
        rooms.progress.publish(self._next_version(rooms))
        rooms.pool.set_learner(rooms.learner)

    def _publish_rest(self, rooms: Rooms, topology: Topology) -> None:
        """There was nothing left to train on between two versions: what was learnt since the last is one, too."""
        if topology.publish_interval is not None and rooms.progress.unpublished:
            self._make_version(rooms)
            self._commit(rooms, topology)
            self._publish(rooms, topology)

    def _next_version(self, rooms: Rooms) -> PolicyVersion:
        """Synchronous runs repeat themselves exactly, numbers included; others never use a number twice."""
        newest = rooms.progress.version
        if self.config.schedule == "async" or self.config.buffer.feeds:
            published = rooms.policies.versions(self.config.policy.name)
            newest = max([newest, *(ref.version for ref in published[-1:])])
        return PolicyVersion(newest + 1)

    def _obey(self, rooms: Rooms, topology: Topology) -> None:
        """Do what was asked for since the last update; while paused, only look after the workers."""
        if self._checkpoint_wanted:
            self._commit(rooms, topology)
        if self._is_held():
            before = self._stage
            self._enter("paused")
            while self._is_held():
                topology.tend(POLL_S)
                if self._checkpoint_wanted:
                    self._commit(rooms, topology)
            self._enter(before)

    def _settle(self, rooms: Rooms, topology: Topology, *, may_stop: bool = False) -> dict[str, float]:
        """Wait for the evaluation in progress and count it into the league; returns what it came to.

        Between updates the wait is not cut short by `stop`: skipping an evaluation would make the run another one.
        """
        with rooms.telemetry.room("evaluate"):
            while not rooms.evaluation.is_complete and not (may_stop and self._stopping):
                topology.tend(POLL_S)
        if not rooms.evaluation.is_complete:
            return {}
        measured = rooms.evaluation.job
        scores = rooms.evaluation.settle()
        rooms.telemetry.meters.add("league", 0 if measured is None else len(measured.played))
        if measured is not None and scores:
            rooms.telemetry.metrics(measured.step, scores)
        return scores

    def _commit(self, rooms: Rooms, topology: Topology) -> None:
        """Save everything as one manifest. Until it has its name on disk, nothing has happened."""
        update = rooms.progress.update
        with rooms.telemetry.room("checkpoint"):
            if update not in rooms.checkpoints.list():
                staging = rooms.checkpoints.stage(update)
                state = topology.save(staging)
                state |= {**rooms.state(), "cycle": self._cycle.state()}
                saved = rooms.checkpoints.commit(staging, update, state)
                rooms.index(saved)
                rooms.telemetry.meters.add("storage", 1)
            self._checkpoint_done()

    def _publish(self, rooms: Rooms, topology: Topology) -> None:
        """Let everybody see the version that the checkpoint holds; doing it again changes nothing."""
        with rooms.telemetry.room("policies"):
            rooms.publish(topology.weights())
            topology.use_version(rooms.learner)
            topology.submit_evaluation(rooms.evaluation.pending_tasks())

    def _export(self, rooms: Rooms) -> None:
        """Let the version of the last round be used elsewhere; doing it again changes nothing."""
        cycle, version = self.config.cycle, self._cycle.version
        if cycle is None or cycle.export is None or version is None:
            return
        ref = PolicyRef(name=PolicyName(self.config.policy.name), version=PolicyVersion(version))
        if not rooms.policies.has(ref):
            return
        self._be("exporting")
        folder = ExportFolder(self.run.path / cycle.export, cycle.keep_exports)
        with rooms.telemetry.room("policies"):
            if folder.add(rooms.policies, ref):
                rooms.telemetry.event("exported", policy=str(ref), path=str(folder.target(ref)))
        self._be("training")

    def _be(self, stage: Stage) -> None:
        if self._stage != stage:
            self._enter(stage)

    def _report(self, rooms: Rooms, report: UpdateReport) -> None:
        now, steps = time.monotonic(), rooms.progress.steps
        if now - self._reported[0] < self.config.telemetry.every_s:
            return
        rate = (steps - self._reported[1]) / (now - self._reported[0])
        self._reported = (now, steps)
        rooms.telemetry.metrics(
            steps, {**report.metrics, "loop/steps_per_s": rate, **rooms.telemetry.take_room_times()}
        )


def open_run_directory(run: RunDirectory, config: RunConfig) -> None:
    """Make a run's directory, or check that the one that is there can go on under this config; under the run lock."""
    sweep_leftovers(run.path)
    text = dump_config(config)
    if not run.is_run():
        run.create(text)
        return
    run.open()
    check_resumable(run.config.read_text(), config)
    write_text(run.config, text)
