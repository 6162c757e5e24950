"""What one forward pass computes: rows, each of which is one token at one position of one sequence.

Decoding sequences have one row, prompts as many as are computed at once; both are mixed freely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.kv_cache import BLOCK

FEWEST = 4
"""Rows of a matrix product from which on a row's bits do not depend on how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Rows that follow each other and belong to one policy version."""

    weights: Any
    """What the decoder made of the version's tensors."""
    start: int
    stop: int
    first_wanted: int
    last_wanted: int
    """The first after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """`M` rows, at least `FEWEST`, and none or at least as many wanted. Rows of one sequence follow each other in the
    order of their positions, without gaps."""

    tokens: NDArray[np.int64]
    """`[M]`."""
    positions: NDArray[np.int32]
    """`[M]`. A row attends to positions up to its own."""
    sequences: NDArray[np.int32]
    """`[M]`: the sequence's row in `tables`."""
    tables: NDArray[np.int32]
    """`[sequences, blocks]`: where each sequence's positions are in the cache."""
    wanted: NDArray[np.int64] | None
    """`[n]`: the rows whose next token is asked for; None for all of them, in order."""
    spans: tuple[Span, ...]
    """Which version computes which rows; together they cover all."""

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A rectangle for attention in plain PyTorch: `S` sequences with `T` rows each, padded to the longest; what a row
    must not see is masked."""

    rows: Tensor
    """`[S, T]` row numbers."""
    blocks: Tensor
    """`[S, B]`."""
    last: Tensor
    """`[S]`: the last position of each sequence."""
    visible: Tensor
    """`[S, 1, T, B * BLOCK]`: which positions each row sees."""


def make_runs(rows: Rows, device: torch.device) -> tuple[Run, ...]:
    """All rows, each in one rectangle."""
    return tuple(_make_run(rows, starts, length, device) for length, starts in _by_length(rows))


def _by_length(rows: Rows) -> list[tuple[int, NDArray[np.int64]]]:
    """Where the rows of a sequence begin, those with equally many together."""
    first = np.ones(len(rows), bool)
    first[1:] = (rows.sequences[1:] != rows.sequences[:-1]) | (rows.positions[1:] != rows.positions[:-1] + 1)
    starts = np.flatnonzero(first)
    lengths = np.diff(starts, append=len(rows))
    return [(int(length), starts[lengths == length]) for length in np.unique(lengths)]


def _make_run(rows: Rows, starts: NDArray[np.int64], length: int, device: torch.device) -> Run:
    numbers = starts[:, None] + np.arange(length)
    positions = rows.positions[numbers]
    blocks = int(positions.max()) // BLOCK + 1
    visible = np.arange(blocks * BLOCK) <= positions[:, None, :, None]
    return Run(
        rows=torch.from_numpy(numbers).to(device),
        blocks=torch.from_numpy(rows.tables[rows.sequences[starts], :blocks].astype(np.int64)).to(device),
        last=torch.from_numpy(positions[:, -1].astype(np.int64)).to(device),
        visible=torch.from_numpy(visible).to(device),
    )
