"""From ragged experience to the padded batch that a network's compiled update takes.

A row is a decision or, for a network with a memory, a BPTT chunk: a sequence begins with an empty memory and is cut
into chunks of `chunk` decisions, the last one padded with weight 0. What a later chunk begins with is computed with the
weights that the update begins with, so nothing of the memory is stored. It is computed in blocks of one shape, so a
row's numbers do not depend on how many others there are. Decisions that are not to be learnt from (noise) have weight 0
and are remembered all the same.

Invariant: padding rows have weight 0, and the update's result does not depend on how many there are. Sizes are rounded
up to few distinct ones, because every new size is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ludus.config import MlpConfig
from ludus.errors import TrainError
from ludus.policies.networks import PolicyNetwork
from ludus.policies.value_scale import trained
from ludus.records import Experiences

Batch = dict[str, Any]
"""Columns `[B, ...]`: observation, legal (optional), state (optional), action, logp, value, advantage, target, weight,
source (optional)."""

Params = Mapping[str, jax.Array]
BLOCK = 64
"""Chunks whose memory is computed at once."""
_NOTHING = -1
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
    """Rows to pad to: whole minibatches, their number rounded up to a power of two.

    Padding costs memory only, since the learner loops over the rows that count; a new size costs a compilation.
    """
    needed = max(1, -(-count // minibatch))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A batch without credit, and where its elements are among the steps."""

    batch: Batch
    index: NDArray[np.int64]
    """`[B]` or `[B, L]`: the step of each element; -1 where there is none."""
    steps: int

    def gather(self, column: NDArray[Any]) -> NDArray[Any]:
        """A step column `[N, ...]` as rows; 0 where there is nothing."""
        found = column[self.index]
        if (missing := self.index == _NOTHING).any():
            found[missing] = 0
        return found

    def scatter(self, rows: Any) -> NDArray[np.float32]:
        """Rows as a step column `[N]`; 0 for steps that are in none."""
        column = np.zeros(self.steps, np.float32)
        there = self.index != _NOTHING
        column[self.index[there]] = np.asarray(rows)[there]
        return column


def make_rows(network: PolicyNetwork) -> Decisions:
    """Single decisions, or chunks where the network remembers."""
    config = network.config
    if isinstance(config, MlpConfig) and config.memory is not None:
        return Chunks(network, config.memory.chunk)
    return Decisions(network)


class Decisions:
    """A row is a decision that the policy made."""

    length: int = 1
    """Decisions of a row."""

    def __init__(self, network: PolicyNetwork) -> None:
        self._network = network

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight that is trained."""
        return trained(self._network.shapes())

    def of(self, experiences: Experiences, source: NDArray[Any] | None, params: Params) -> Rows:
        """The rows of a batch whose offsets begin at 0: every element of the mask. `source`: a code per sequence."""
        mask = np.asarray(experiences.steps["mask"], bool)
        batch = _with_state(flatten(experiences, source), self._network)
        return Rows(batch=batch, index=np.flatnonzero(mask), steps=len(mask))

    def apply(self, params: Params, columns: Mapping[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """Logits `[B, A]` and values `[B]` of rows. Traceable."""
        return self._network.apply(params, columns["observation"], columns.get("state"))


class Chunks(Decisions):
    """A row is a chunk of decisions of one seat."""

    def __init__(self, network: PolicyNetwork, length: int) -> None:
        super().__init__(network)
        self.length = length
        self._advance = jax.jit(lambda *arguments: network.unroll(*arguments)[2])

    def of(self, experiences: Experiences, source: NDArray[Any] | None, params: Params) -> Rows:
        """Every element of every sequence; those outside the mask have weight 0."""
        everything = experiences.replace(steps={"mask": np.ones(experiences.step_count, bool)})
        flat = _with_state(flatten(everything), self._network)
        flat["weight"] = np.asarray(experiences.steps["mask"], np.float32)
        index, sequence = cut(experiences.offsets, self.length)
        rows = Rows(batch={}, index=index, steps=experiences.step_count)
        rows.batch.update({name: rows.gather(column) for name, column in flat.items()})
        if source is not None:
            rows.batch["source"] = source[sequence].astype(np.int32)
        rows.batch["memory"] = self._remember(params, rows.batch, sequence)
        return rows

    def apply(self, params: Params, columns: Mapping[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """Logits `[B, L, A]` and values `[B, L]`."""
        logits, value, _ = self._network.unroll(params, columns["observation"], columns.get("state"), columns["memory"])
        return logits, value

    def _remember(self, params: Params, batch: Batch, sequence: NDArray[np.int64]) -> NDArray[np.float32]:
        """What each chunk begins with, `[B, M]`."""
        memory = np.zeros((len(sequence), self._network.memory_size), np.float32)
        follows = np.concatenate([[False], sequence[1:] == sequence[:-1]])
        number = np.arange(len(sequence)) - np.maximum.accumulate(np.where(follows, 0, np.arange(len(sequence))))
        for each in range(1, int(number.max(initial=0)) + 1):
            rows = np.flatnonzero(number == each)
            for start in range(0, len(rows), BLOCK):
                chosen = rows[start : start + BLOCK]
                memory[chosen] = self._after(params, batch, memory, chosen - 1)
        return memory

    def _after(
        self, params: Params, batch: Batch, memory: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The memory after these chunks, at most `BLOCK` of them."""
        block = np.resize(rows, BLOCK)
        state = batch["state"][block] if "state" in batch else None
        found = self._advance(params, batch["observation"][block], state, memory[block])
        return np.asarray(found)[: len(rows)]


def cut(offsets: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut sequences into chunks: the step of each element `[B, length]`, and the sequence of each chunk `[B]`."""
    counts = -(-np.diff(offsets) // length)
    sequence = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
    index = (offsets[sequence] + number * length)[:, None] + np.arange(length)
    return np.where(index < offsets[sequence + 1][:, None], index, _NOTHING), sequence


def _with_state(batch: Batch, network: PolicyNetwork) -> Batch:
    """The batch with the state if the critic sees it, and without if not."""
    if not network.state_size:
        batch.pop("state", None)
    elif "state" not in batch or batch["state"].shape[1:] != (network.state_size,):
        raise TrainError(f"the critic is central and sees {network.state_size} numbers, which the experience lacks")
    return batch
