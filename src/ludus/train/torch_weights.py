"""All that a learner trains, as one float32 vector with a name for every part of it.

Invariant: a weight's tensor is a view of the vector, and its gradient a view of the gradient's; so clipping, the
optimizer and the sum over trainers are a few operations on two vectors, and matrices that are laid out behind each
other are one matrix (`fused`) without a copy. What a weight is called and holds does not depend on the layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Shapes = Mapping[str, tuple[int, ...]]
Names = tuple[str, ...]


class Layout:
    """Where each weight is in the vector.

    Args:
        shapes: of all weights, by name.
        fused: names that are to stand behind each other, in this order; the first axis is the one that adds up. Others
            follow on their own.
    """

    def __init__(self, shapes: Shapes, fused: Iterable[Names] = ()) -> None:
        groups = [names for names in fused if all(name in shapes for name in names)]
        grouped = {name for names in groups for name in names}
        self.groups: tuple[Names, ...] = (*groups, *((name,) for name in shapes if name not in grouped))
        self.shapes = dict(shapes)
        self.places: dict[str, int] = {}
        size = 0
        for name in (name for names in self.groups for name in names):
            self.places[name] = size
            size += prod(shapes[name])
        self.size = size

    def view(self, vector: torch.Tensor, names: Sequence[str]) -> torch.Tensor:
        """One weight, or several of one group as one."""
        first, rest = self.shapes[names[0]][0], self.shapes[names[0]][1:]
        rows = first + sum(self.shapes[name][0] for name in names[1:])
        place = self.places[names[0]]
        return vector[place : place + rows * prod(rest)].view(rows, *rest)

    def pack(self, tensors: Mapping[str, NDArray[Any]], device: torch.device | str = "cpu") -> torch.Tensor:
        """A new vector that holds these tensors."""
        vector = torch.empty(self.size, dtype=torch.float32)
        for name in self.shapes:
            self.view(vector, (name,)).copy_(torch.from_numpy(np.array(tensors[name], np.float32)))
        return vector.to(device)

    def unpack(self, vector: torch.Tensor) -> dict[str, NDArray[Any]]:
        """The tensors of a vector, as copies."""
        host = vector.detach().cpu().numpy().copy()
        return {
            name: host[self.places[name] : self.places[name] + prod(shape)].reshape(shape)
            for name, shape in self.shapes.items()
        }


class Leaves:
    """The weights as autograd sees them: a leaf for each group of the layout; gradients add up in `gradient`."""

    def __init__(self, layout: Layout, vector: torch.Tensor) -> None:
        self.layout = layout
        self.vector = vector
        self.gradient = torch.zeros_like(vector)
        self._leaves: dict[str, tuple[Names, torch.Tensor]] = {}
        for names in layout.groups:
            leaf = layout.view(vector, names).requires_grad_()
            leaf.grad = layout.view(self.gradient, names)
            self._leaves |= {name: (names, leaf) for name in names}

    def __contains__(self, name: str) -> bool:
        return name in self._leaves

    def __getitem__(self, name: str) -> torch.Tensor:
        """One weight."""
        names, leaf = self._leaves[name]
        if len(names) == 1:
            return leaf
        heights = [self.layout.shapes[other][0] for other in names]
        place = names.index(name)
        return leaf.narrow(0, sum(heights[:place]), heights[place])

    def fused(self, names: Names) -> torch.Tensor:
        """The weights of one whole group as one."""
        group, leaf = self._leaves[names[0]]
        if group != names:
            raise KeyError(names)
        return leaf

    def clear_gradient(self) -> None:
        """Begin a new sum."""
        self.gradient.zero_()
