"""Experience in bulk: n sequences of different lengths, stored by column.

A sequence is what one learning seat saw and did in one episode. Its elements are decisions on a board or tokens of a
language model; both are the same ragged columns. `steps["action"][offsets[i]:offsets[i + 1]]` are the actions (or
token ids) of sequence `i`.

Step columns (all `[N, ...]` with `N = offsets[-1]`):

    action       int32     action taken, or token id
    mask         bool      whether the policy chose this element (prompt tokens: False)
    logp         float32   log-probability under the policy version that chose it
    value        float32   its value estimate (0 where there is none)
    reward       float32   reward that arrived after this element, before the seat's next one
    version      int32     policy version that chose it
    observation  [N, *S]   what the seat saw (absent for token sequences, whose prefix is the observation)
    legal        [N, A]    legal actions (absent where every action is legal)
    state        [N, G]    the state of the whole game (only where a central critic sees it)

Sequence columns (all `[n]`):

    episode, game, policy, group        str
    task, attempt, seat                 int64
    final_reward                        float32: the seat's total reward as the game gave it
    shaped_reward                       float32: the same after the final-reward transforms
    truncated                           bool
    turn                                int64, only where a sequence is one turn of a seat instead of all it did: which

Some rows have more columns, and `ABSENT` says what it means when a row lacks them:

    raw_reward                          float32: `shaped_reward` before the operators
    source                              str: `on_policy`, `expert` or `pairs`
    pair, chosen                        int64, bool: which pair of answers, and whether it is the better one
    greedy                              bool: an attempt at the likeliest, which others are compared with (`remax`)
    baseline                            float32, only in a batch: what that attempt of the row's group got
    own_version                         int64: rows of another run that feeds this one; which version of this run's
                                        policy chose it, or -1 (the step column `version` is that of the other run)
    reason, detail                      str: why it was refused (in the log `refused`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ludus.errors import LudusError

REQUIRED_STEP_COLUMNS = ("action", "mask", "logp", "value", "reward", "version")
SEQUENCE_COLUMNS = (
    "episode",
    "task",
    "attempt",
    "game",
    "seat",
    "policy",
    "group",
    "final_reward",
    "shaped_reward",
    "truncated",
)

MOST_SEATS = 1024
"""Seats of one game are numbered below this."""
ABSENT: Mapping[str, Any] = {"source": "on_policy", "pair": -1, "chosen": False, "format_ok": True, "baseline": np.nan}
"""What it means that a row does not have a column, where that is not 0, false or empty."""
_LIKE = {"raw_reward": "shaped_reward"}
"""Columns that are the same as another one unless something says otherwise."""
_BOARD = ("observation", "legal")


def places(seat: NDArray[Any], turn: NDArray[Any] | None) -> NDArray[np.int64]:
    """What tells the sequences of one episode apart, `[n]`: the seat, and the turn where sequences are turns."""
    where = np.asarray(seat, np.int64)
    return where if turn is None else where + MOST_SEATS * np.asarray(turn, np.int64)


class EncodedColumns(Protocol):
    """Columns as they came from a log or from another process."""

    def take(self, rows: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> EncodedColumns:
        """Those of the chosen sequences that are worth keeping; `columns` are what the columns are now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiences:
    """n ragged sequences by column. Arrays are shared, never copied on construction; treat them as read-only."""

    sequences: Mapping[str, NDArray[Any]]
    offsets: NDArray[np.int64]
    steps: Mapping[str, NDArray[Any]]
    encoded: EncodedColumns | None = field(default=None, compare=False, repr=False)
    """So that a column that nobody changed is not encoded a second time. `storage/arrow.py` knows what it is."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def step_count(self) -> int:
        """Number of elements over all sequences."""
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Elements per sequence, `[n]`."""
        return np.diff(self.offsets)

    @property
    def places(self) -> NDArray[np.int64]:
        """What tells the sequences of one episode apart, `[n]`."""
        return places(self.sequences["seat"], self.sequences.get("turn"))

    def sequence_of_step(self) -> NDArray[np.int64]:
        """Index of the sequence that each element belongs to, `[N]`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def take(self, rows: NDArray[Any] | Sequence[int]) -> Experiences:
        """The chosen sequences, in that order; a row may be taken more than once."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        index = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        sequences = {name: column[rows] for name, column in self.sequences.items()}
        return Experiences(
            sequences=sequences,
            offsets=offsets,
            steps={name: column[index] for name, column in self.steps.items()},
            encoded=None if self.encoded is None else self.encoded.take(rows, sequences),
        )

    def replace(self, *, sequences: Mapping[str, Any] = {}, steps: Mapping[str, Any] = {}) -> Experiences:
        """The same sequences with some columns exchanged or added."""
        return Experiences(
            sequences={**self.sequences, **sequences},
            offsets=self.offsets,
            steps={**self.steps, **steps},
            encoded=self.encoded,
        )

    @staticmethod
    def concatenate(parts: Sequence[Experiences]) -> Experiences:
        """Put batches with the same columns behind each other."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.lengths for part in parts])
        return Experiences(
            sequences={k: np.concatenate([p.sequences[k] for p in parts]) for k in parts[0].sequences},
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            steps={
                k: np.concatenate([p.steps[k][p.offsets[0] : p.offsets[-1]] for p in parts]) for k in parts[0].steps
            },
        )

    @staticmethod
    def empty() -> Experiences:
        """No sequences."""
        return Experiences(sequences={}, offsets=np.zeros(1, np.int64), steps={})


def join(parts: Sequence[Experiences]) -> Experiences:
    """All rows, in order, with the columns of all parts: of the policy, of experts, and what people brought back.

    Rows keep their values; a column that some of them lack is filled with what its absence means (`ABSENT`), or with
    nothing of its type. What was seen on a board cannot be made up: rows with and without it do not go together.

    Raises:
        LudusError: rows with observations and rows without, or of different shapes.
    """
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else Experiences.empty()
    sequences = _prototypes([part.sequences for part in parts])
    steps = _prototypes([part.steps for part in parts])
    return Experiences.concatenate([_completed(part, sequences, steps) for part in parts])


def _prototypes(columns: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """One column of each name, to take its type and shape from."""
    return {name: column for mapping in columns for name, column in mapping.items()}


def _completed(
    part: Experiences, sequences: Mapping[str, NDArray[Any]], steps: Mapping[str, NDArray[Any]]
) -> Experiences:
    _check_board(part, steps)
    if part.sequences.keys() == sequences.keys() and part.steps.keys() == steps.keys():
        return part
    rows, elements = len(part), int(part.offsets[-1])
    return part.replace(
        sequences={
            name: part.sequences[_LIKE[name]].copy() if name in _LIKE else _filled(name, like, rows)
            for name, like in sequences.items()
            if name not in part.sequences
        },
        steps={name: _filled(name, like, elements) for name, like in steps.items() if name not in part.steps},
    )


def _check_board(part: Experiences, steps: Mapping[str, NDArray[Any]]) -> None:
    for name in _BOARD:
        if name in steps and (name not in part.steps or part.steps[name].shape[1:] != steps[name].shape[1:]):
            raise LudusError(f"rows with and without the same kind of {name} cannot be in one batch")


def _filled(name: str, like: NDArray[Any], count: int) -> NDArray[Any]:
    if like.dtype.kind in "OU":
        return np.full(count, ABSENT.get(name, ""), object)
    return np.full((count, *like.shape[1:]), ABSENT.get(name, 0), like.dtype)
