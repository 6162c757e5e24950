"""Where batches come from: the protocol that every source has, and what a batch is.

To add a kind of source, write `next`, `commit`, `state` and `load_state`; `runs/opening.py` chooses that of a run. A
source that only the trainer can read fast is a *loader* (`train/loaders.py`): the loop sends `Batch(is_pulled=True)`,
and the trainer pulls the rows inside its own process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.records import Experiences


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """What one update is trained on."""

    experiences: Experiences = field(default_factory=Experiences.empty)
    """Rows for the trainer; empty where the learner makes or pulls its own."""
    claims: Mapping[str, Any] = field(default_factory=dict)
    """What `commit` needs, by the name of the part that it is for."""
    staleness: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Versions that each rollout is behind."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    is_pulled: bool = False
    """Whether the trainer pulls the rows from its loader; no bytes go through the loop."""
    validates: bool = False
    """Whether the trainer measures the policy on held-out rows after this update."""
    admits: int = 0
    """New sequences that the trainer's loader admits before it is pulled."""
    explored: tuple[int, int] | None = None
    """Mode explore: steps and episodes that went into the buffer. Nothing is trained."""


class BatchSource(ABC):
    """Gives one batch after the other. Called from the loop's thread only.

    Invariant: a batch counts as used once it is committed and the next checkpoint is on disk. After a resume the source
    goes on behind the last batch that the checkpoint knows of.
    """

    @abstractmethod
    def next(self) -> Batch | None:
        """The batch of the next update. None: nothing to train on now, a moment has gone by."""

    @abstractmethod
    def commit(self, batch: Batch) -> None:
        """The update on this batch is done. Durable with the next checkpoint."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint: what is committed. Batches under way do not count."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint. Called before `start`."""

    @property
    def is_exhausted(self) -> bool:
        """Whether there will never be another batch."""
        return False

    def start(self) -> None:  # noqa: B027 - most sources have nothing to start
        """Start to work: called once, when all parts of the run have their state."""

    def on_published(self) -> None:  # noqa: B027 - most sources keep nothing on disk
        """A version has been published and its checkpoint is on disk: old rows can go."""

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Training is over: wait for all that is still being played for it; False when stopped before."""
        return True

    def metrics(self) -> dict[str, float]:
        """What there is to report now."""
        return {}


class OwnSource(BatchSource):
    """The source of a learner that makes its own data: a fused run, exact PSRO. Its state is the learner's."""

    def next(self) -> Batch:
        """The learner knows what to do."""
        return Batch()

    def commit(self, batch: Batch) -> None:
        """Nothing was taken from anywhere."""

    def state(self) -> dict[str, Any]:
        """None of its own."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """None of its own."""
