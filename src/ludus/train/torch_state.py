"""What a PyTorch learner keeps between updates, and its form on disk: NumPy arrays by name, bit-exact both ways.

A policy is adapters (LoRA, in peft's names) or every parameter of the model (in transformers' names); with a critic it
also has a value head on the last hidden state. What is published and saved is exactly these.

All that is trained is one float32 vector with a name for every part of it. Invariant: a weight's tensor is a view of
the vector, and its gradient a view of the gradient's; so clipping, the optimizer and the sum over trainers are a few
operations on two vectors, and matrices that are laid out behind each other are one matrix (`fused`) without a copy.

The form on disk does not depend on the layout: the optimizer's moments carry the names of the weights they belong to,
as in `mu.value_head.weight`. Optimizers work on the vectors in place, with the formulas and the schedule of those in
`jax_steps.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.config import LoraConfig, OptimizerConfig
from ludus.config.parts import SCHEDULES
from ludus.lm.adapters import adapter_shapes, init_adapter
from ludus.lm.language_models import LanguageModel
from ludus.lm.weights import VALUE_BIAS, VALUE_WEIGHT
from ludus.train.learners import check_tensors
from ludus.train.reducer import Reducer

Tensors = dict[str, NDArray[Any]]
Names = tuple[str, ...]
_BETAS = (0.9, 0.999)
_RMS_DECAY = 0.99

Moments = dict[str, torch.Tensor]

MOMENTS: dict[str, tuple[str, ...]] = {"adam": ("mu", "nu"), "adamw": ("mu", "nu"), "rmsprop": ("nu",), "sgd": ()}
"""What each kind remembers of the gradients."""


class Layout:
    """Where each weight is in the vector.

    Args:
        shapes: of all weights, by name.
        fused: names that are to stand behind each other, in this order; the first axis is the one that adds up. Others
            follow on their own.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], fused: Iterable[Names] = ()) -> None:
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


class TrainedWeights(Protocol):
    """Weights with their gradient, as an update sees them: one vector (`Leaves`), or this trainer's shards."""

    def __contains__(self, name: str) -> bool: ...

    def __getitem__(self, name: str) -> torch.Tensor: ...

    def clear_gradient(self) -> None:
        """Begin a new sum."""
        ...

    def add_up_gradient(self, reducer: Reducer) -> None:
        """The sum over all trainers."""
        ...

    def gradient_norm(self) -> float:
        """Over all weights, the same on every trainer."""
        ...

    def scale_gradient(self, factor: float) -> None:
        """Clip it."""
        ...


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

    def add_up_gradient(self, reducer: Reducer) -> None:
        """Sum the gradient over all trainers."""
        reducer.add_up(self.gradient)

    def gradient_norm(self) -> float:
        """Over all weights."""
        return float(torch.linalg.vector_norm(self.gradient))

    def scale_gradient(self, factor: float) -> None:
        """Clip it."""
        self.gradient.mul_(factor)


@dataclass(slots=True, kw_only=True)
class TorchState:
    """Weights and optimizer. An update changes it in place."""

    vector: torch.Tensor
    """float32 `[P]`: all weights, in the learner's layout."""
    moments: Moments
    """float32 `[P]` each, by name."""
    steps: int = 0
    """Optimizer steps taken."""
    skipped: int = 0
    """Optimizer steps skipped in a row, up to now."""


def state_tensors(state: TorchState, layout: Layout) -> dict[str, Tensors]:
    """The state in two parts, `weights` and `optimizer`, as copies."""
    optimizer: Tensors = {"steps": np.array(state.steps, np.int64), "skipped": np.array(state.skipped, np.int64)}
    for moment, vector in state.moments.items():
        optimizer |= {f"{moment}.{name}": tensor for name, tensor in layout.unpack(vector).items()}
    return {"weights": layout.unpack(state.vector), "optimizer": optimizer}


def state_from_tensors(
    tensors: Mapping[str, Mapping[str, NDArray[Any]]], layout: Layout, moments: tuple[str, ...], device: torch.device
) -> TorchState:
    """The state that `state_tensors` wrote. Raises CorruptRecord if names, shapes or types are not this learner's."""
    floats = {name: (shape, np.dtype(np.float32)) for name, shape in layout.shapes.items()}
    counts = {name: ((), np.dtype(np.int64)) for name in ("steps", "skipped")}
    remembered = {f"{moment}.{name}": what for moment in moments for name, what in floats.items()}
    check_tensors("weights", floats, tensors["weights"])
    check_tensors("optimizer", {**counts, **remembered}, tensors["optimizer"])
    saved = tensors["optimizer"]
    return TorchState(
        vector=layout.pack(tensors["weights"], device),
        moments={
            moment: layout.pack({name: saved[f"{moment}.{name}"] for name in floats}, device) for moment in moments
        },
        steps=int(saved["steps"]),
        skipped=int(saved["skipped"]),
    )


def weight_shapes(model: LanguageModel, lora: LoraConfig | None, *, critic: bool) -> dict[str, tuple[int, ...]]:
    """Shape of every trained tensor by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    if lora is None:
        shapes |= {name: tuple(parameter.shape) for name, parameter in model.model.named_parameters()}
    else:
        shapes |= adapter_shapes(model.model, lora)
    return shapes | ({VALUE_WEIGHT: (1, model.width), VALUE_BIAS: (1,)} if critic else {})


def init_weights(model: LanguageModel, lora: LoraConfig | None, *, critic: bool, seed: int) -> Tensors:
    """The weights of version 0: they change nothing in what the base model does. The critic begins at 0."""
    tensors: Tensors = {}
    if lora is None:
        tensors |= {name: p.detach().float().cpu().numpy() for name, p in model.model.named_parameters()}
    else:
        tensors |= init_adapter(model.model, lora, seed)
    shapes = weight_shapes(model, lora, critic=critic)
    return tensors | {name: np.zeros(shapes[name], np.float32) for name in shapes.keys() - tensors.keys()}


def init_moments(config: OptimizerConfig, vector: torch.Tensor) -> Moments:
    """Nothing seen yet."""
    return {name: torch.zeros_like(vector) for name in MOMENTS[config.kind]}


def descend(config: OptimizerConfig, state: TorchState, leaves: Leaves, *, progress: float) -> None:
    """One optimizer step by the gradient of the leaves; the critic at its own learning rate, if it has one."""
    rate, number = learning_rate(config, progress), state.steps
    own = config.critic_learning_rate
    end = leaves.layout.places.get(VALUE_WEIGHT) if own is not None else None
    if own is None or end is None:
        step(config, state.vector, leaves.gradient, state.moments, number=number, rate=rate)
        return
    for part, factor in ((slice(0, end), 1.0), (slice(end, None), own / config.learning_rate)):
        moments = {name: moment[part] for name, moment in state.moments.items()}
        step(config, state.vector[part], leaves.gradient[part], moments, number=number, rate=rate * factor)


def step(
    config: OptimizerConfig,
    vector: torch.Tensor,
    gradient: torch.Tensor,
    moments: Moments,
    *,
    number: int,
    rate: float,
) -> None:
    """Move the vector downhill. `gradient` is used up; `number` counts the steps, this one included.

    `weight_decay` is decoupled for `adamw` and part of the gradient (L2) for the others, as in torch.
    """
    if config.weight_decay:
        if config.kind == "adamw":
            vector.mul_(1.0 - rate * config.weight_decay)
        else:
            gradient.add_(vector, alpha=config.weight_decay)
    if config.kind in ("adam", "adamw"):
        _adam(config, vector, gradient, moments, number, rate)
    elif config.kind == "rmsprop":
        nu = moments["nu"].mul_(_RMS_DECAY).addcmul_(gradient, gradient, value=1.0 - _RMS_DECAY)
        vector.addcdiv_(gradient, nu.sqrt().add_(config.eps), value=-rate)
    else:
        vector.add_(gradient, alpha=-rate)


def _adam(
    config: OptimizerConfig, vector: torch.Tensor, gradient: torch.Tensor, moments: Moments, number: int, rate: float
) -> None:
    first, second = _BETAS
    moments["mu"].lerp_(gradient, 1.0 - first)
    moments["nu"].mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
    torch.sqrt(moments["nu"], out=gradient)
    gradient.div_(math.sqrt(1.0 - second**number)).add_(config.eps)
    vector.addcdiv_(moments["mu"], gradient, value=-rate / (1.0 - first**number))


def learning_rate(config: OptimizerConfig, progress: float) -> float:
    """The rate when this share of the run is done: it rises from 0 over the warm-up, then follows the schedule."""
    progress = min(max(progress, 0.0), 1.0)
    if progress < config.warmup_fraction:
        return config.learning_rate * progress / config.warmup_fraction
    after = min((progress - config.warmup_fraction) / (1.0 - config.warmup_fraction), 1.0)
    factor = 1.0
    if config.schedule == "linear":
        factor = 1.0 - (1.0 - config.final_fraction) * after
    elif config.schedule == "cosine":
        factor = config.final_fraction + (1.0 - config.final_fraction) * 0.5 * (1.0 + math.cos(math.pi * after))
    elif config.schedule != "constant":
        factor = float(SCHEDULES.find(config.schedule)(np.asarray(after), final_fraction=config.final_fraction))
    return config.learning_rate * factor
