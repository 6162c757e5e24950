"""What the loop asks of a learner: one step for each batch, its state, its weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.orchestrator.progress import UpdateReport
from ludus.policies import AnyShape
from ludus.sources.protocol import Batch
from ludus.storage.checkpoints import Checkpoint


class Learner(ABC):
    """One policy in training. Called from the loop's thread only."""

    publish_interval: int | None = None
    """Updates after which explorers need a new version; None where they need none but for snapshots and evaluations."""
    is_training = True
    """Whether it changes weights. Mode evaluate has a learner that does not."""

    @property
    @abstractmethod
    def shape(self) -> AnyShape:
        """What its weights are the weights of."""

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
