"""Rows of a pass as rectangles, for attention in plain PyTorch: sequences x rows of each x positions they see.

Sequences that have the same number of rows in the pass go together; short ones are padded to the longest, and what
a row must not see is masked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.kv_cache import BLOCK
from ludus.lm.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`S` sequences with `T` rows each."""

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
    return tuple(_make_run(rows, starts, length, device) for length, starts in _stretches(rows))


def _stretches(rows: Rows) -> list[tuple[int, NDArray[np.int64]]]:
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
