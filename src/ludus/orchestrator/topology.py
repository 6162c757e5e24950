"""What the loop asks of a topology: where the rooms run is its business, when things happen is the loop's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from ludus.orchestrator.progress import UpdateReport
from ludus.records import PolicyRef, Task
from ludus.storage.checkpoints import Checkpoint


class Topology(Protocol):
    """One way to run the rooms. Called from the loop's thread only."""

    publish_interval: int | None
    """Updates after which explorers need a new version; None where they need none but for snapshots and evaluations."""

    @property
    def is_exhausted(self) -> bool:
        """Whether there is nothing left to do, short of the configured steps."""
        ...

    def begin(self, saved: Checkpoint | None) -> None:
        """Start workers and load the state of a checkpoint, or make a first one."""
        ...

    def advance(self) -> UpdateReport:
        """Explore and train until one update is done."""
        ...

    def tend(self, timeout_s: float) -> None:
        """Look after the workers and take what they bring, without training."""
        ...

    def save(self, staging: Path) -> dict[str, Any]:
        """Write tensors into the staging folder; returns the JSON state that goes with them."""
        ...

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The learner's weights as of the last update."""
        ...

    def use_version(self, ref: PolicyRef) -> None:
        """The version is published; play with it from now on."""
        ...

    def refresh_opponents(self) -> None:
        """The pool has changed; choose opponents anew where they are held for a while."""
        ...

    def submit_evaluation(self, tasks: Sequence[Task]) -> None:
        """Have these games played beside training."""
        ...

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Training is over: wait until all that is being played for it has come back; False when stopped before."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...


class TakesData(Topology, Protocol):
    """A topology whose training can wait for data (`cycle`, `buffer.feeds`). Called from the loop's thread only."""

    most_orders: int | None
    """Updates that may be under way; None for as many as it likes."""

    @property
    def taken_in(self) -> int:
        """Sequences that have come in since the start of the run."""
        ...

    @property
    def is_dry(self) -> bool:
        """Whether there is nothing to train on; otherwise `advance` will not wait for data."""
        ...

    def take_in(self, wanted: int) -> bool:
        """Take a part of what has come, or have so many more sequences played; returns whether there is no more."""
        ...
