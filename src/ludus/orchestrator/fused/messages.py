"""What the loop and a fused learner's worker say to each other."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ludus.runtime import Stop


class FusedSetup(msgspec.Struct, tag="fused_setup", kw_only=True):
    """First message to the worker: everything it needs to know."""

    config: str
    """The resolved config as JSON."""
    shape: dict[str, Any]
    """The policy's shape as JSON."""
    blocks: list[int]
    """Games of each opponent."""
    learner_seat: int | None
    is_population: bool
    checkpoint: str
    """Name of the checkpoint to go on from; empty to begin with fresh weights."""
    key: list[int]
    """The random key as of that checkpoint."""
    start: str = ""
    """Another run's published policies, to begin with the weights of one of them."""
    start_policy: str = ""
    plugins: list[str] = []


class PlayAndTrain(msgspec.Struct, tag="play_and_train", kw_only=True):
    """Do one update."""

    number: int
    """Of the update, as the loop counts them."""
    opponents: list[str]
    """By block."""
    restart: list[bool]
    """By block: whether its games begin anew."""
    progress: float
    """Share of the run that is done: where the schedules are."""


class SaveState(msgspec.Struct, tag="save_state", kw_only=True):
    """Write the current state into a folder beside the checkpoints."""

    staging: str


class Numbers(msgspec.Struct, kw_only=True):
    """An array, bit for bit."""

    dtype: str
    shape: list[int]
    data: bytes

    @classmethod
    def of(cls, array: NDArray[Any]) -> Numbers:
        """Encode."""
        return cls(dtype=array.dtype.str, shape=list(array.shape), data=array.tobytes())

    def array(self) -> NDArray[Any]:
        """Decode."""
        return np.frombuffer(self.data, np.dtype(self.dtype)).reshape(self.shape)


class Updated(msgspec.Struct, tag="updated", kw_only=True):
    """An update is done."""

    number: int
    metrics: dict[str, float]
    tally: dict[str, Numbers]


class StateSaved(msgspec.Struct, tag="state_saved", kw_only=True):
    """The state is in the folder."""

    staging: str
    key: list[int]
    """The random key that goes with it."""


class FusedBroken(msgspec.Struct, tag="fused_broken", kw_only=True):
    """The worker cannot go on, and why; it ends after this."""

    error: str


ToFused = FusedSetup | PlayAndTrain | SaveState | Stop
FromFused = Updated | StateSaved | FusedBroken
