"""The trainers that share every minibatch, as each of them sees the others.

Invariant: what is added up is the same on each of them afterwards, so trainers that began alike stay alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch

T = TypeVar("T")


class Reducer:
    """The trainers that share every minibatch. This one is alone; `parallel.GlooReducer` is one of several."""

    rank = 0
    size = 1

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replace the tensor by its sum over all trainers. All of them call this, in the same order."""

    def share(self, parts: Sequence[T]) -> Sequence[T]:
        """The parts that fall to this trainer."""
        return parts[self.rank :: self.size]

    def add_up_totals(self, totals: Mapping[str, torch.Tensor], names: Sequence[str]) -> dict[str, float]:
        """Totals by name, over all trainers; `names` are all that there can be, 0 where a trainer has none."""
        vector = torch.tensor([float(totals.get(name, 0.0)) for name in names], dtype=torch.float64)
        self.add_up(vector)
        return dict(zip(names, vector.tolist(), strict=True))
