"""How trainers share a minibatch: each takes some of its parts, and sums are made over all of them.

Invariant: what is added up is the same on every trainer afterwards, so trainers that began alike stay alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

T = TypeVar("T")


class Reducer(Protocol):
    """The trainers that share every minibatch."""

    rank: int
    size: int

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replace the tensor by its sum over all trainers. All of them call this, in the same order."""
        ...


class Alone:
    """One trainer that does it all."""

    rank = 0
    size = 1

    def add_up(self, tensor: torch.Tensor) -> None:
        """It is the sum already."""


def share(parts: Sequence[T], reducer: Reducer) -> Sequence[T]:
    """The parts that fall to this trainer."""
    return parts[reducer.rank :: reducer.size]


def add_up_totals(totals: Mapping[str, torch.Tensor], names: Sequence[str], reducer: Reducer) -> dict[str, float]:
    """Totals by name, over all trainers; `names` are all that there can be, 0 where a trainer has none."""
    vector = torch.tensor([float(totals.get(name, 0.0)) for name in names], dtype=torch.float64)
    reducer.add_up(vector)
    return dict(zip(names, vector.tolist(), strict=True))


def add_up_column(column: NDArray[np.float32], reducer: Reducer) -> NDArray[np.float32]:
    """A column of which each trainer has filled its own places, 0 elsewhere."""
    reducer.add_up(torch.from_numpy(column))
    return column
