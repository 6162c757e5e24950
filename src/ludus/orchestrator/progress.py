"""How far a run is: the counters that every checkpoint holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ludus.sources.protocol import Batch


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


def crosses(every: int | None, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return every is not None and before // every < after // every
