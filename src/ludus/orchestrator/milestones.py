"""When a version, a snapshot, an evaluation and a checkpoint are due, and when training is over.

Invariant: decided by the counters of the checkpoint and the config alone, so a resumed run does the same after the same
update. Keys that may be set while a run is live (`train.steps`, `evaluate.every`, …) are read here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ludus.config import RunConfig
from ludus.orchestrator.early_stopping import EarlyStopping
from ludus.orchestrator.progress import Progress, UpdateReport, crosses


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What must happen between this update and the next."""

    version: bool = False
    """Publish the weights as a new version: somebody needs it."""
    snapshot: bool = False
    """The version joins the league's pool."""
    evaluation: bool = False
    checkpoint: bool = False


class Milestones:
    """The schedule of one run."""

    def __init__(self, config: RunConfig, progress: Progress, *, until: int | None = None) -> None:
        """`until` is a number of steps to stop at before `train.steps` are over."""
        self.config = config
        self.progress = progress
        self.early_stopping = EarlyStopping(config.train.stop)
        self._until = config.train.steps if until is None else min(until, config.train.steps)

    def set_config(self, config: RunConfig) -> None:
        """Follow another config from the next update on."""
        if self._until == self.config.train.steps:
            self._until = config.train.steps
        self.config = config

    @property
    def is_enough(self) -> bool:
        """Whether training is over, for now or for good."""
        return self.progress.steps >= self._until or bool(self.early_stopping.reason)

    @property
    def is_complete(self) -> bool:
        """Whether training is over for good."""
        return self.progress.steps >= self.config.train.steps or bool(self.early_stopping.reason)

    @property
    def share_done(self) -> float:
        """Share of the run's steps that are done, `[0, 1]`: where learning-rate schedules are."""
        return min(self.progress.steps / self.config.train.steps, 1.0)

    def reopen(self) -> None:
        """After a resume: a run that was finished may have more to do under another config."""
        if not self.is_complete:
            self.progress.finished = False

    def count(self, report: UpdateReport) -> None:
        """Add an update to the counters."""
        self.progress.count(report)
        self.early_stopping.note(report)

    def due(self, interval: int | None) -> Due:
        """After an update has been counted; explorers play `interval` updates with one version."""
        progress, config, is_last = self.progress, self.config, self.is_enough
        version_due = is_last or (interval is not None and progress.unpublished >= interval)
        since, may_publish = progress.published_steps, version_due or interval is None
        snapshot = is_last or (may_publish and crosses(config.league.snapshot_every, since, progress.steps))
        evaluation = may_publish and crosses(config.evaluate.every, since, progress.steps) and not is_last
        version = version_due or snapshot or evaluation
        checkpoint = version or crosses(config.checkpoint.every, progress.update - 1, progress.update)
        return Due(version=version, snapshot=snapshot, evaluation=evaluation, checkpoint=checkpoint)


class MeasuringMilestones(Milestones):
    """Of mode evaluate: nothing is trained, and every measured version is a checkpoint."""

    @property
    def is_enough(self) -> bool:
        """The source says when every version has been measured."""
        return False

    def due(self, interval: int | None) -> Due:
        """What was measured is not measured again."""
        return Due(checkpoint=True)
