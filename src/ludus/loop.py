"""The closed loop: tasks -> explore -> experience -> buffer -> train -> policies -> league -> tasks.

Read this file first. One update is `batch = source.next()`, `report = learner.step(batch)`, `conclude(report)`. Where
batches come from is the source's business (`sources/`); where weights change is the learner's: a trainer process, or
one compiled program that plays and trains. What must happen at one point in time (evaluations settled, state saved,
version published, league told) happens here, between two updates, in the same order in every kind of run (`runs/`).
That order makes a resume exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.orchestrator import Evaluator, Explorers, Learner, Publisher, Reporter, RunState, UpdateReport
from ludus.runs.round_exports import RoundExports
from ludus.sources import BatchSource
from ludus.storage.checkpoints import Checkpoint

if TYPE_CHECKING:
    from ludus.runs.cycle import Cycle
    from ludus.runs.opening import Parts

POLL_S = 0.05


class Loop:
    """One policy in training, from its newest checkpoint to its end."""

    def __init__(
        self, parts: Parts, source: BatchSource, learner: Learner, explorers: Explorers, evaluator: Evaluator
    ) -> None:
        self._context, self._store, self._controls = parts.context, parts.store, parts.controls
        self._source, self.learner, self._explorers, self.evaluator = source, learner, explorers, evaluator
        self.milestones = parts.milestones
        self._publisher = Publisher(self._context, self._store, parts.progress, parts.pool, evaluator, explorers)
        self._exports = RoundExports(self._context, self._store.policies, parts.cycle, self._controls)
        self._reporter = Reporter(self._context.telemetry, self.milestones)
        self._parts = RunState(
            self._store,
            parts.progress,
            parts.pool,
            parts.repair,
            evaluation=parts.evaluation,
            tasks=parts.tasks,
            enough=self.milestones.early_stopping,
            cycle=parts.cycle,
            clock=self.milestones.clock,
            endpoints=explorers.bill,
        )

    @property
    def cycle(self) -> Cycle:
        """The rounds of the run."""
        return self._exports.cycle

    def run(self, *, strict_resume: bool = False) -> None:
        """Train until the run is long enough, the source is exhausted or somebody asks to stop."""
        self._begin(self._store.resume_point(strict=strict_resume))
        while not self.milestones.is_enough and not self._source.is_exhausted:
            self._obey()
            if self._controls.is_stopping:
                break
            self._update()
        self._end()

    def _update(self) -> None:
        batch = self._source.next()
        with self.cycle.training():
            report = self.learner.step(batch)
        if report is not None:  # an asynchronous learner may still be at it
            self._source.commit(report.batch)
            self._conclude(report)

    def _conclude(self, report: UpdateReport) -> None:
        """What happens between two updates."""
        progress = self.milestones.progress
        self.milestones.count(report)
        due = self.milestones.due(self.cycle.updates_of_round or self.learner.publish_interval)
        if due.evaluation:
            self.evaluator.settle()
        if due.version:
            self._publisher.make_version()
            self.cycle.end_round(progress.version)
            self._controls.hurry(False)
        if due.snapshot:
            self._publisher.take_snapshot()
            self.learner.on_pool_change()
        if due.evaluation:
            self.evaluator.issue(self._publisher.newest, progress.steps)
        if due.checkpoint:
            self.commit()
        if due.version:
            self._publish()
        if self.learner.is_training:
            self._reporter.report(report, self._metrics)

    def _begin(self, saved: Checkpoint | None) -> None:
        """Start from a checkpoint, or from nothing."""
        if saved is not None:
            self._parts.load_state(saved.state)
            self._parts.index(saved)
            self._source.load_state(saved.state)
            self.evaluator.resume()
            self.milestones.reopen()
        self.learner.begin(saved)
        self._source.start()
        if self.learner.is_training:
            if saved is None:
                self._publisher.take_snapshot()
                if self.milestones.config.evaluate.at_start:
                    self.evaluator.issue(self._publisher.newest, 0)
                self.commit()
            self._publish()
            self._reporter.restart()
            self._controls.enter("training")
        self._context.telemetry.event("started", resumed=saved is not None, **self.milestones.progress.counters())

    def _end(self) -> None:
        """Leave a state to resume from or, when training is done, the final measurement."""
        milestones, is_stopping = self.milestones, self._controls.is_stopping
        if is_stopping and self.learner.is_training:
            self._controls.enter("stopping")
            self.commit()
        elif milestones.is_enough and not milestones.is_complete:
            self.commit()
        elif self.learner.is_training and not milestones.progress.finished:
            self._finish()
        self._context.telemetry.event("ended", stopped=self._is_stopping(), **milestones.progress.counters())

    def _finish(self) -> None:
        """Measure the final version; a resume repeats what a stop cuts short."""
        progress, reason = self.milestones.progress, self.milestones.early_stopping.reason
        if reason:
            self._context.telemetry.event("learnt_enough", reason=reason, step=progress.steps)
        self._controls.enter("evaluating")
        self.evaluator.settle(self._is_stopping)
        if self.learner.publish_interval is not None and progress.unpublished:
            self._publisher.make_version()  # the source was exhausted between two versions
            self.commit()
            self._publish()
        if not self.evaluator.is_open:
            self.evaluator.issue(self._publisher.newest, progress.steps, is_final=True)
            self.evaluator.submit()
        self.evaluator.settle(self._is_stopping)
        if not self.evaluator.is_open and self._source.drain(self._is_stopping):
            progress.finish()
            self.commit()

    def _obey(self) -> None:
        """Do what was asked for since the last update; while paused, only look after the workers."""
        controls = self._controls
        if controls.is_checkpoint_wanted:
            self.commit()
        if controls.is_held:
            before = controls.activity
            controls.enter("paused")
            while controls.is_held:
                self._explorers.serve(POLL_S)
                if controls.is_checkpoint_wanted:
                    self.commit()
            controls.enter(before)
            self._reporter.restart()

    def _is_stopping(self) -> bool:
        return self._controls.is_stopping

    @property
    def is_saved(self) -> bool:
        """Whether there is a checkpoint of this very update."""
        return self.milestones.progress.update in self._store.checkpoints.list()

    def commit(self) -> None:
        """Save everything as one manifest. Until it has its name on disk, nothing has happened."""
        checkpoints, telemetry = self._store.checkpoints, self._context.telemetry
        update = self.milestones.progress.update
        with telemetry.room("checkpoint"):
            if not self.is_saved:
                staging = checkpoints.stage(update)
                state = {**self.learner.save(staging), **self._source.state(), **self._parts.state()}
                self._parts.index(checkpoints.commit(staging, update, state))
                telemetry.meters.add("storage", 1)
            self._controls.checkpoint_done()

    def _publish(self) -> None:
        """Let everybody see the version that the checkpoint holds; doing it again changes nothing."""
        with self._context.telemetry.room("policies"):
            self._publisher.publish(self.learner)
            self._source.on_published()
            self.evaluator.submit()
        self._exports.add(self.milestones.progress.update)

    def close(self) -> None:
        """Report what only the end of a run can tell."""
        self._exports.close()
        self._explorers.close()

    def _metrics(self) -> dict[str, float]:
        return {**self._source.metrics(), **self._explorers.take_metrics()}
