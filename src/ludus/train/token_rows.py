"""Token sequences on their way into a language model's update: checked, shuffled, cut, and laid out as `[B, W]`.

A row is a sequence; its targets are the elements with mask, which the policy sampled. Losses see `[B, W]` arrays of
targets alone (W of the longest row), so prompts and what others said take no room there. Everything here is NumPy and
deterministic: the same experience and seed give the same minibatches, whatever came before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import TrainError
from ludus.records import Experiences
from ludus.train.sources import ON_POLICY, partners

Ints = NDArray[np.int64]


def trainable_rows(experiences: Experiences, *, vocabulary: int, context: int) -> Experiences:
    """The sequences in which the policy chose anything, from offset 0. Raises TrainError for another model's."""
    if "observation" in experiences.steps:
        raise TrainError("experience with observations (decisions on a board) cannot train a language model")
    begin, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    mask = np.asarray(experiences.steps["mask"][begin:stop], bool)
    owner = experiences.sequence_of_step()
    rows = np.flatnonzero(np.bincount(owner[mask], minlength=len(experiences)))
    chosen = experiences.take(rows)
    _check(chosen, vocabulary, context)
    return chosen


def _check(rows: Experiences, vocabulary: int, context: int) -> None:
    if not len(rows):
        return
    tokens, lengths = rows.steps["action"], rows.lengths
    if (longest := int(lengths.max())) > context:
        raise TrainError(f"a sequence of {longest} tokens does not fit the model's context of {context}")
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise TrainError(
            f"a sequence holds token {int(tokens.max() if tokens.max() >= vocabulary else tokens.min())}, "
            f"but the model's vocabulary has {vocabulary}: the experience is another model's"
        )
    if np.asarray(rows.steps["mask"], bool)[rows.offsets[:-1]].any():
        raise TrainError("a sequence begins with a sampled token; it needs a prompt of at least one token before it")


def minibatches(
    count: int,
    size: int,
    *,
    epochs: int,
    seed: int,
    source: NDArray[Any] | None = None,
    pair: NDArray[Any] | None = None,
) -> Iterator[Ints]:
    """Rows of each optimizer step: every epoch in a new order, in parts of nearly equal size, as few as allowed.

    Each part has a fair share of every `source`, to one row. A `pair` is never cut; a part may have a row more for it.
    Both are labels of `sources.numbered`, `[count]`.
    """
    units = _units(count, pair)
    parts = -(-count // size)
    for epoch in range(epochs if count else 0):
        order = np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(len(units))
        if source is not None:
            order = order[interleaved(source[units[order, 0]])]
        yield from np.array_split(order, parts) if pair is None else _whole_units(units[order], parts)


def interleaved(source: NDArray[Any]) -> Ints:
    """An order of rows that spreads each source evenly, and keeps the order within each."""
    place = np.empty(len(source), np.float64)
    for code in np.unique(source):
        members = np.flatnonzero(source == code)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.argsort(place, kind="stable")


def _units(count: int, pair: NDArray[Any] | None) -> Ints:
    """What must stay together, `[u, 2]`: the two rows of a pair; a row without one stands there twice."""
    rows = np.arange(count)
    partner = rows if pair is None else partners(pair)
    first = np.flatnonzero(rows <= partner)
    return np.stack([first, partner[first]], axis=1)


def _whole_units(units: Ints, parts: int) -> Iterator[Ints]:
    """Cut units, `[u, 2]` in order, into parts of nearly as many rows."""
    sizes = np.where(units[:, 0] == units[:, 1], 1, 2)
    before = np.cumsum(sizes) - sizes
    part = before * parts // int(sizes.sum())
    for number in range(parts):
        chosen = units[part == number]
        if len(chosen):
            yield np.array(list(dict.fromkeys(chosen.ravel().tolist())), np.int64)


def own_elements(rows: Experiences) -> NDArray[np.bool_]:
    """Which elements the policy itself chose, `[N]`: those of on-policy rows with mask."""
    mask = np.asarray(rows.steps["mask"], bool)
    if "source" not in rows.sequences:
        return mask
    own: NDArray[np.bool_] = mask & (rows.sequences["source"] == ON_POLICY)[rows.sequence_of_step()]
    return own


def normalised(advantage: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Centred and scaled by mean and standard deviation over the mask; all equal gives zeros."""
    chosen = advantage[mask].astype(np.float64)
    if not len(chosen):
        return advantage
    with np.errstate(invalid="ignore"):  # what is not finite makes the step be skipped
        scale = np.sqrt(np.mean((chosen - chosen.mean()) ** 2)) + 1e-8
        return np.where(mask, (advantage - chosen.mean()) / scale, 0.0).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Where the targets of some rows are: in the ragged columns, and in `[B, W]`."""

    elements: Ints
    """`[M]`: index of each target in the step columns."""
    places: Ints
    """`[M]`: its index in `[B, W]`, flattened."""
    shape: tuple[int, int]

    def padded(self, column: NDArray[np.float32]) -> NDArray[np.float32]:
        """A step column as `[B, W]`, 0 where there is no target."""
        flat = np.zeros(self.shape[0] * self.shape[1], np.float32)
        flat[self.places] = column[self.elements]
        return flat.reshape(self.shape)

    @property
    def mask(self) -> NDArray[np.float32]:
        """`[B, W]`: 1 where there is a target."""
        flat = np.zeros(self.shape[0] * self.shape[1], np.float32)
        flat[self.places] = 1.0
        return flat.reshape(self.shape)


def targets_of(rows: Experiences) -> Targets:
    """Find the targets, row by row in the order of their tokens. Offsets begin at 0."""
    mask = np.asarray(rows.steps["mask"], bool)
    elements = np.flatnonzero(mask)
    owner = rows.sequence_of_step()[elements]
    counts = np.bincount(owner, minlength=len(rows))
    width = int(counts.max(initial=0))
    within = np.arange(len(elements)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Targets(elements=elements, places=owner * width + within, shape=(len(rows), width))
