"""What an update did, how far a run is, and what the loop asks of a learner."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import LeagueConfig
from ludus.orchestrator.loader_watch import LoaderStatus
from ludus.policies import AnyShape
from ludus.sources.protocol import Batch
from ludus.storage.checkpoints import Checkpoint
from ludus.train.messages import Trained


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """What one update did."""

    steps: int
    episodes: int
    batch: Batch = field(default_factory=Batch)
    """What it was trained on."""
    metrics: dict[str, float] = field(default_factory=dict)
    is_learnt: bool = True
    """Whether the weights have changed; exploring alone leaves them as they are."""
    rated_games: int = 0
    """Games against others that ended in this update."""
    score: float = 0.0
    """The learner's share of points in those."""
    mean_return: float = 0.0
    """What it got in those on average."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """Mutable counters, owned by the loop."""

    update: int = 0
    """Updates done."""
    steps: int = 0
    """Environment steps trained on or (fused) played."""
    episodes: int = 0
    """Training episodes finished."""
    version: int = 0
    """Newest published version of the learner."""
    next_task: int = 0
    """Number of the next training task."""

    unpublished: int = 0
    """Updates since the newest version was published."""
    published_steps: int = 0
    """Steps at which that was."""
    finished: bool = False
    """Whether training and the final evaluation are done."""

    def count(self, report: UpdateReport) -> None:
        """Add an update."""
        self.update += 1
        self.unpublished += report.is_learnt
        self.steps += report.steps
        self.episodes += report.episodes

    def publish(self, version: int) -> None:
        """The state after this update is a version."""
        self.version = version
        self.unpublished = 0
        self.published_steps = self.steps

    def finish(self) -> None:
        """Mark the run as done. That is an update of its own, since a checkpoint of an update never changes."""
        self.update += 1
        self.finished = True

    def counters(self) -> dict[str, int]:
        """The numbers a person wants to see."""
        return {"update": self.update, "steps": self.steps, "episodes": self.episodes, "version": self.version}

    def state(self) -> dict[str, int]:
        """For the checkpoint."""
        return asdict(self)

    def load_state(self, state: dict[str, Any]) -> None:
        """Go back to a checkpoint."""
        for name, value in state.items():
            setattr(self, name, type(getattr(self, name))(value))
        if "published_steps" not in state:  # a checkpoint of the time when every update was published
            self.published_steps = self.steps


class RunClock:
    """What a run's length is counted by besides its steps: updates and seconds of training, over all its starts."""

    def __init__(self, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = progress
        self._clock = clock
        self._since = clock()
        self.updates = 0
        """Updates done; unlike `Progress.update` without that which marks the end."""
        self.seconds = 0.0
        """As of the last update."""
        self.published_share = 0.0
        """Share of the run that was done when the newest version was published."""

    def restart(self) -> None:
        """Count from now on: the run was not training before."""
        self._since = self._clock()

    def count(self, share_done: float) -> None:
        """An update is over; before it, this share of the run was done."""
        if not self._progress.unpublished:
            self.published_share = share_done
        now = self._clock()
        self.updates, self.seconds, self._since = self.updates + 1, self.seconds + now - self._since, now

    def state(self) -> dict[str, float]:
        """For the checkpoint."""
        return {"updates": self.updates, "seconds": self.seconds, "published_share": self.published_share}

    def load_state(self, state: Mapping[str, float]) -> None:
        """Go back to a checkpoint."""
        self.updates, self.seconds = int(state["updates"]), state["seconds"]
        self.published_share = state["published_share"]


def crosses(every: int | None, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return every is not None and before // every < after // every


class Learner(ABC):
    """One policy in training. Called from the loop's thread only."""

    publish_interval: int | None = None
    """Updates after which explorers need a new version; None where they need none but for snapshots and evaluations."""
    is_training = True
    """Whether it changes weights. Mode evaluate has a learner that does not."""
    shape: AnyShape
    """What its weights are the weights of."""

    @property
    def beside(self) -> Mapping[str, bytes]:
        """Files that are published beside its weights, by name."""
        return {}

    @property
    def loader_status(self) -> LoaderStatus | None:
        """What its loader is doing, where it has one that tells. Asked from any thread."""
        return None

    @abstractmethod
    def begin(self, saved: Checkpoint | None) -> None:
        """Load a checkpoint, or make the first state. Called once, before anything else."""

    @abstractmethod
    def step(self, batch: Batch | None) -> UpdateReport | None:
        """Train on a batch; returns an update that is done, which may be that of an earlier batch, or None.

        Called with None while the source has nothing: only to take what a pipelined learner has finished.
        """

    @abstractmethod
    def save(self, staging: Path) -> dict[str, Any]:
        """Write the tensors after the last update that was returned; returns the JSON state that goes with them."""

    @abstractmethod
    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The policy's weights as of the last `save`."""

    def on_pool_change(self) -> None:  # noqa: B027 - most learners hold no opponents
        """The league's pool has changed: choose opponents anew where they are held for a while."""


def report_of(batch: Batch, trained: Trained, league: LeagueConfig) -> UpdateReport:
    """The report of a trained batch. Games are rated where the learner plays against anybody but itself."""
    meets_others = any(choice.kind != "mirror" for choice in league.opponents) or not league.opponents
    metrics = {
        **{f"train/{name}": value for name, value in trained.metrics.items()},
        "train/staleness": float(batch.staleness.mean()) if len(batch.staleness) else 0.0,
        **batch.metrics,
        "train/seconds": trained.seconds,
    }
    if batch.is_pulled:
        return UpdateReport(batch=batch, steps=trained.steps, episodes=trained.episodes, metrics=metrics)
    rows = batch.experiences
    rewards = np.asarray(rows.sequences["final_reward"], np.float64)
    own = rewards[rows.sequences["source"] == "on_policy"] if "source" in rows.sequences else rewards
    if len(own):
        metrics["train/reward"] = float(own.mean())
    return UpdateReport(
        batch=batch,
        steps=int(rows.steps["mask"].sum()),
        episodes=len(set(rows.sequences["episode"].tolist())),
        rated_games=len(rewards) if meets_others else 0,
        score=float((0.5 + 0.5 * np.sign(rewards)).mean()) if len(rewards) else 0.0,
        mean_return=float(rewards.mean()) if len(rewards) else 0.0,
        metrics=metrics,
    )
