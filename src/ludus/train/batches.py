"""From ragged experience to the flat, padded batch that a learner's compiled update takes.

Invariant: padding rows have weight 0, and the update's result does not depend on how many there are. Sizes are rounded
up to few distinct ones, because every new size is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import TrainError
from ludus.records import Experiences

Batch = dict[str, Any]
"""Columns `[B, ...]`: observation, legal (optional), state (optional), action, logp, value, advantage, target, weight,
source (optional)."""

_COLUMNS = {"action": np.int32, "logp": np.float32, "value": np.float32}


def from_zero(experiences: Experiences) -> Experiences:
    """The same sequences with step columns cut to them, when they are a slice of larger ones."""
    begin, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    steps = {name: column[begin:stop] for name, column in experiences.steps.items()}
    return Experiences(sequences=experiences.sequences, offsets=experiences.offsets - begin, steps=steps)


def flatten(experiences: Experiences, source: NDArray[Any] | None = None) -> Batch:
    """The elements that the policy chose, without those it did not; weight 1 each. Offsets begin at 0.

    `source`: a code for each sequence, where not all are on-policy.
    """
    steps = experiences.steps
    if "observation" not in steps:
        raise TrainError("experience without observations (token sequences?) cannot train a network on boards")
    mask = np.asarray(steps["mask"], bool)
    chosen = slice(None) if mask.all() else mask
    batch: Batch = {name: np.asarray(steps[name][chosen], dtype) for name, dtype in _COLUMNS.items()}
    batch["observation"] = np.asarray(steps["observation"][chosen])
    if "legal" in steps:
        batch["legal"] = np.asarray(steps["legal"][chosen], bool)
    if "state" in steps:
        batch["state"] = np.asarray(steps["state"][chosen], np.float32)
    if source is not None:
        batch["source"] = source[experiences.sequence_of_step()[chosen]].astype(np.int32)
    batch["weight"] = np.ones(len(batch["action"]), np.float32)
    return batch


def bucket(count: int, minibatch: int) -> int:
    """Rows to pad to: whole minibatches, their number and a quarter more rounded up to a power of two.

    Padding costs memory only, since the learner loops over the rows that count. A new size costs a compilation in the
    middle of a run, so there is room for batches that are a little larger than the first.
    """
    needed = max(1, -(-count * 5 // (minibatch * 4)))
    return (1 << (needed - 1).bit_length()) * minibatch


def pad(batch: Batch, size: int) -> Batch:
    """Lengthen every column to `size` rows by zeros; the weight of those is 0."""
    return {name: _pad_column(np.asarray(column), size) for name, column in batch.items()}


def _pad_column(column: NDArray[Any], size: int) -> NDArray[Any]:
    if len(column) == size:
        return column
    padded = np.zeros((size, *column.shape[1:]), column.dtype)
    padded[: len(column)] = column
    return padded
