"""What several trainers that share a state keep of it, and how each writes and reads its own rows.

Invariant: a state is read bit for bit by any number of trainers, whoever wrote it: in pieces by several, or in whole
files by one. A critic's head is small and not cut: every trainer has it, trainer 0 writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.config import OptimizerConfig
from ludus.errors import CorruptRecord
from ludus.lm.weights import VALUE_BIAS, VALUE_WEIGHT
from ludus.storage.tensor_shards import Part, Piece, open_state, save_shard
from ludus.train.reducer import Reducer
from ludus.train.sharded_model import fill, first_row, local
from ludus.train.torch_state import MOMENTS, learning_rate, step

CRITIC = (VALUE_WEIGHT, VALUE_BIAS)


class ShardedWeights:
    """This trainer's rows of every trained weight, with their gradient; a critic whole."""

    def __init__(self, weights: Mapping[str, torch.Tensor], reducer: Reducer) -> None:
        self.by_name = dict(weights)
        self._reducer = reducer

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.by_name[name]

    def clear_gradient(self) -> None:
        """Begin a new sum."""
        for weight in self.by_name.values():
            weight.grad = None

    def add_up_gradient(self, reducer: Reducer) -> None:
        """Shards are summed in the backward pass; what is not cut, here."""
        for name in CRITIC:
            if name in self:
                weight = self.by_name[name]
                if weight.grad is None:
                    weight.grad = torch.zeros_like(weight)
                reducer.add_up(weight.grad)

    def gradient_norm(self) -> float:
        """Over all trainers."""
        squares = torch.zeros(1, dtype=torch.float64)
        for name, gradient in self.gradients():
            if name not in CRITIC or self._reducer.rank == 0:
                squares += float(torch.linalg.vector_norm(gradient)) ** 2
        self._reducer.add_up(squares)
        return math.sqrt(float(squares)) if bool(torch.isfinite(squares)) else math.nan

    def scale_gradient(self, factor: float) -> None:
        """Clip it."""
        for _, gradient in self.gradients():
            gradient.mul_(factor)

    def gradients(self) -> Iterator[tuple[str, torch.Tensor]]:
        """This trainer's rows of each gradient that there is."""
        for name, weight in self.by_name.items():
            if weight.grad is not None:
                yield name, local(weight.grad)


@dataclass(slots=True, kw_only=True)
class ShardedState:
    """Weights and optimizer of one trainer. An update changes it in place; the weights are the model's own."""

    weights: ShardedWeights
    moments: dict[str, dict[str, torch.Tensor]]
    """By moment and weight: this trainer's rows."""
    steps: int = 0
    skipped: int = 0

    @classmethod
    def fresh(cls, weights: ShardedWeights, config: OptimizerConfig, *, offloads: bool) -> ShardedState:
        """Nothing seen yet. `offloads`: the optimizer stays in the machine's memory."""
        where = torch.device("cpu") if offloads else None
        moments = {
            moment: {name: torch.zeros_like(local(weight), device=where) for name, weight in weights.by_name.items()}
            for moment in MOMENTS[config.kind]
        }
        return cls(weights=weights, moments=moments)

    @torch.no_grad()
    def descend(self, config: OptimizerConfig, *, progress: float) -> None:
        """One optimizer step, weight by weight; `steps` counts it already."""
        rate = learning_rate(config, progress)
        own = config.critic_learning_rate or config.learning_rate
        for name, gradient in self.weights.gradients():
            weight = local(self.weights[name])
            kept = {moment: tensors[name] for moment, tensors in self.moments.items()}
            here = {moment: tensor.to(weight.device) for moment, tensor in kept.items()}
            factor = own / config.learning_rate if name in CRITIC else 1.0
            step(config, weight, gradient, here, number=self.steps, rate=rate * factor)
            for moment, tensor in here.items():
                if tensor is not kept[moment]:
                    kept[moment].copy_(tensor)

    def write(self, folder: Path, *, rank: int, only_weights: bool = False) -> None:
        """Write this trainer's file."""
        pieces = [piece for piece in self._pieces(rank) if piece.name.startswith("weights.") or not only_weights]
        save_shard(folder, rank + 1, pieces)

    def _pieces(self, rank: int) -> Iterator[Piece]:
        for name, weight in self.weights.by_name.items():
            if name in CRITIC and rank:
                continue
            start = first_row(weight)
            yield _piece(f"weights.{name}", local(weight), start)
            for moment, tensors in self.moments.items():
                yield _piece(f"optimizer.{moment}.{name}", tensors[name], start)
        if not rank:
            for name, count in (("steps", self.steps), ("skipped", self.skipped)):
                yield _piece(f"optimizer.{name}", torch.tensor([count]), 0)

    def read(self, folder: Path) -> None:
        """Take this trainer's rows of a state. Raises CorruptRecord for that of another policy or optimizer."""
        parts = open_state(folder)
        saved, expected = parts["optimizer"], {name: tuple(x.shape) for name, x in self.weights.by_name.items()}
        remembered = {f"{moment}.{name}": shape for moment in self.moments for name, shape in expected.items()}
        _check("weights", parts["weights"], expected)
        _check("optimizer", saved, remembered, besides=("steps", "skipped"))
        self.take(parts["weights"])
        for moment, tensors in self.moments.items():
            for name, tensor in tensors.items():
                start = first_row(self.weights[name])
                if tensor.numel():
                    rows = saved.rows(f"{moment}.{name}", start, start + len(tensor))
                    tensor.copy_(torch.from_numpy(rows))
        self.steps, self.skipped = int(saved["steps"]), int(saved["skipped"])

    def take(self, weights: Part, names: frozenset[str] | None = None) -> None:
        """Take this trainer's rows of weights."""
        for name, weight in self.weights.by_name.items():
            if names is None or name in names:
                fill(weight, name, weights.rows)


def _piece(name: str, tensor: torch.Tensor, start: int) -> Piece:
    def read() -> NDArray[Any]:
        return np.asarray(tensor.detach().cpu().numpy())

    offsets = (start, *[0] * (tensor.dim() - 1))
    return Piece(
        name=name, shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."), offsets=offsets, read=read
    )


def _check(part: str, found: Part, expected: Mapping[str, tuple[int, ...]], besides: tuple[str, ...] = ()) -> None:
    problems = [f"{name} is missing" for name in (*expected, *besides) if name not in found]
    problems += [f"{name} is unknown" for name in found if name not in expected and name not in besides]
    problems += [
        f"{name} is {list(found.shape(name))}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found.shape(name) != shape
    ]
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        text = "; ".join(sorted(problems)[:5])
        raise CorruptRecord(f"{part} do not fit this policy and optimizer: {text}{more}")
