"""What one forward pass computes: rows, each of which is one token at one position of one sequence.

Decoding sequences have one row, prompts as many as are computed at once; both are mixed freely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
