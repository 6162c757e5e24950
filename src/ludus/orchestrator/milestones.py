"""When a version, a snapshot, an evaluation and a checkpoint are due, and when training is over.

Invariant: decided by the counters of the checkpoint and the config alone, so a resumed run does the same after the same
update. Keys that may be set while a run is live (`train.steps`, `evaluate.every`, …) are read here and nowhere else.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ludus.config import EarlyStoppingConfig, RunConfig
from ludus.orchestrator.progress import Progress, RunClock, UpdateReport, crosses
from ludus.reports.number_text import duration
from ludus.telemetry import Telemetry

_PARTS = 20
_SCORE, _RETURN = 1, 2
"""Columns of what is kept of an update: games, share of points, mean return."""


class EarlyStopping:
    """Whether a policy has learnt enough before its steps are over: it wins often enough, or no longer improves."""

    def __init__(self, config: EarlyStoppingConfig) -> None:
        self._config = config
        self._recent: deque[tuple[int, float, float]] = deque(maxlen=config.updates)
        self._best: float | None = None
        self._updates_since_best = 0

    @property
    def reason(self) -> str:
        """Why it is enough; empty while it is not."""
        config, score = self._config, self._mean(_SCORE)
        if config.score is not None and score is not None and score >= config.score:
            return f"a score of {score:.3f} over {config.updates} updates (train.stop.score {config.score:g})"
        if config.plateau is not None and self._updates_since_best >= config.plateau:
            return f"no higher return for {self._updates_since_best} updates (train.stop.plateau)"
        return ""

    def note(self, report: UpdateReport) -> None:
        """Count an update."""
        if not report.rated_games:
            return
        self._recent.append((report.rated_games, report.score, report.mean_return))
        mean = self._mean(_RETURN)
        if mean is None:
            return
        if self._best is None or mean > self._best:
            self._best, self._updates_since_best = mean, 0
        else:
            self._updates_since_best += 1

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"recent": [list(row) for row in self._recent], "best": self._best, "since": self._updates_since_best}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._recent.clear()
        self._recent.extend((int(games), score, mean) for games, score, mean in state["recent"])
        self._best, self._updates_since_best = state["best"], int(state["since"])

    def _mean(self, column: int) -> float | None:
        """Over the games of the last updates; None before there are so many of them."""
        if len(self._recent) < self._config.updates:
            return None
        games = sum(row[0] for row in self._recent)
        return sum(row[0] * row[column] for row in self._recent) / games


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
        self.clock = RunClock(progress)
        self._until = until

    def set_config(self, config: RunConfig) -> None:
        """Follow another config from the next update on."""
        self.config = config

    @property
    def is_enough(self) -> bool:
        """Whether training is over, for now or for good."""
        return self.is_complete or (self._until is not None and self.progress.steps >= self._until)

    @property
    def is_complete(self) -> bool:
        """Whether training is over for good."""
        return self.share_done >= 1.0 or bool(self.early_stopping.reason)

    @property
    def share_done(self) -> float:
        """Share of the run that is done, `[0, 1]`, by whichever of steps, updates and hours is nearest to its end.
        Learning-rate schedules go by it."""
        train, clock = self.config.train, self.clock
        lengths = (
            (self.progress.steps, train.steps),
            (clock.updates, train.updates),
            (clock.seconds / 3600, train.hours),
        )
        return min(max(done / whole for done, whole in lengths if whole is not None), 1.0)

    @property
    def length(self) -> str:
        """`update 3/10  15:00 of 2:00:00`: what has been done of what ends the run, besides steps."""
        train, clock = self.config.train, self.clock
        updates = f"update {clock.updates:,}/{train.updates:,}" if train.updates else ""
        time = f"{duration(clock.seconds)} of {duration(train.hours * 3600)}" if train.hours else ""
        return "  ".join(part for part in (updates, time) if part)

    def reopen(self) -> None:
        """After a resume: a run that was finished may have more to do under another config."""
        if self.progress.update and not self.clock.updates:  # a checkpoint of the time before updates ended a run
            self.clock.updates = self.progress.update - self.progress.finished
        if not self.is_complete:
            self.progress.finished = False

    def count(self, report: UpdateReport) -> None:
        """Add an update to the counters."""
        self.clock.count(self.share_done)
        self.progress.count(report)
        self.early_stopping.note(report)

    def due(self, interval: int | None) -> Due:
        """After an update has been counted; explorers play `interval` updates with one version."""
        progress, config, is_last = self.progress, self.config, self.is_enough
        version_due = is_last or (interval is not None and progress.unpublished >= interval)
        may_publish = version_due or interval is None
        snapshot = is_last or (may_publish and self._is_time(config.league.snapshot_every))
        evaluation = may_publish and self._is_time(config.evaluate.every) and not is_last
        version = version_due or snapshot or evaluation
        is_apart = may_save_apart(config) and not (is_last or snapshot or evaluation)
        is_time = crosses(config.checkpoint.every, progress.update - 1, progress.update)
        checkpoint = (version and not is_apart) or is_time
        return Due(version=version, snapshot=snapshot, evaluation=evaluation, checkpoint=checkpoint)

    def _is_time(self, every: int | None) -> bool:
        """Whether a multiple of `every` steps was passed since the newest version; of a twentieth of the run, where it
        is not said how many steps it has."""
        if every is not None:
            return crosses(every, self.progress.published_steps, self.progress.steps)
        return int(_PARTS * self.clock.published_share) < int(_PARTS * self.share_done)


def may_save_apart(config: RunConfig) -> bool:
    """Whether a version may be published that no checkpoint holds: a resume makes it again, with the same number, from
    the checkpoint before it. So it is with language models in the synchronous schedule, where `checkpoint.every` asks
    for fewer states than there are versions."""
    every, interval = config.checkpoint.every, config.publish_interval
    is_asked_for = every is not None and every > interval and config.cycle is None
    is_repeatable = config.schedule == "sync" and not config.buffer.feeds and config.buffer.loader is None
    return is_asked_for and is_repeatable and config.policy.model is not None


class MeasuringMilestones(Milestones):
    """Of mode evaluate: nothing is trained, and every measured version is a checkpoint."""

    @property
    def is_enough(self) -> bool:
        """The source says when every version has been measured."""
        return False

    def due(self, interval: int | None) -> Due:
        """What was measured is not measured again."""
        return Due(checkpoint=True)


class Reporter:
    """Writes what updates did; what lies between two reports is not written."""

    def __init__(self, telemetry: Telemetry, milestones: Milestones) -> None:
        self._telemetry = telemetry
        self._milestones = milestones
        self._reported = (time.monotonic(), 0)

    def restart(self) -> None:
        """Measure speed, and the time of training, from now on."""
        self._milestones.clock.restart()
        self._reported = (time.monotonic(), self._milestones.progress.steps)

    def report(self, update: UpdateReport, more: Callable[[], dict[str, float]]) -> None:
        """Write the metrics of an update and those that `more` gives, if it is time, or if held-out rows are in it."""
        progress = self._milestones.progress
        now, steps = time.monotonic(), progress.steps
        passed_s = now - self._reported[0]
        if passed_s < self._milestones.config.telemetry.every_s and not update.batch.validates:
            return
        rate = (steps - self._reported[1]) / max(passed_s, 1e-9)
        self._reported = (now, steps)
        times = self._telemetry.take_room_times()
        counts = {"loop/steps_per_s": rate, "loop/episodes": float(progress.episodes)}
        self._telemetry.metrics(steps, {**update.metrics, **more(), **counts, **times})
