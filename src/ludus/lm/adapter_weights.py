"""A version's adapter beside the base, for models too large to have a merged copy of each version.

Adapters of matrices that stand together in the decoder stand together too: what they read, they read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ludus.config import LoraConfig
from ludus.lm.adapters import PREFIX, A, B
from ludus.lm.weights import SITES, Tensors

WHOLE = 8
"""Ranks are filled up with zeros to multiples of this: what a processor computes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """What one linear layer's adapter adds: `(x @ down)[:, ranks] @ matrix` to columns from `column` on."""

    ranks: slice
    column: int
    matrix: Tensor
    """`[ranks, out]`, times alpha / rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is added to one fused product."""

    down: Tensor
    """`[in, ranks]`, of all its linear layers side by side."""
    ups: tuple[Up, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Adapter:
    """The adapter of a whole model: for each layer what is added to each of `SITES`; None where nothing is."""

    layers: tuple[tuple[Site | None, ...], ...]


def fuse_adapter(
    tensors: Tensors, lora: LoraConfig, *, layers: int, outputs: Mapping[str, int], like: Tensor
) -> Adapter:
    """Put a version's adapter tensors together.

    Args:
        tensors: by peft's names.
        lora: how much they count.
        layers: of the model.
        outputs: of each linear layer, by module name.
        like: a weight, for type and device.
    """
    scale = lora.alpha / lora.rank

    def site(at: str, *names: str) -> Site | None:
        return _fuse_site(tensors, scale, like, [(at + name, outputs[at + name]) for name in names])

    places = [f"model.layers.{number}." for number in range(layers)]
    return Adapter(layers=tuple(tuple(site(at, *names) for names in SITES.values()) for at in places))


def _fuse_site(tensors: Tensors, scale: float, like: Tensor, modules: Sequence[tuple[str, int]]) -> Site | None:
    downs: list[Tensor] = []
    ups: list[Up] = []
    column = 0
    for module, outputs in modules:
        if PREFIX + module + A in tensors:
            down, up = (torch.from_numpy(np.array(tensors[PREFIX + module + end], np.float32)) for end in (A, B))
            missing = -len(down) % WHOLE
            first = sum(len(one) for one in downs)
            downs.append(pad(down, (0, 0, 0, missing)))
            matrix = pad(scale * up.t(), (0, 0, 0, missing)).to(like).contiguous()
            ups.append(Up(ranks=slice(first, first + len(down) + missing), column=column, matrix=matrix))
        column += outputs
    return Site(down=torch.cat(downs).t().to(like).contiguous(), ups=tuple(ups)) if downs else None
