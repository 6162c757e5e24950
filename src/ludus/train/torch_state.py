"""What a PyTorch learner keeps between updates, and its form on disk: NumPy arrays by name, bit-exact both ways.

A policy is adapters (LoRA, in peft's names) or every parameter of the model (in transformers' names); with a critic it
also has a value head on the last hidden state. What is published and saved is exactly these.

The form does not depend on how weights are laid out in memory: the optimizer's moments carry the names of the weights
they belong to, as in `mu.value_head.weight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.config import LoraConfig
from ludus.lm.adapters import adapter_shapes, init_adapter
from ludus.lm.language_models import LanguageModel
from ludus.lm.weights import VALUE_BIAS, VALUE_WEIGHT
from ludus.train.learners import check_tensors
from ludus.train.torch_optimizer import Moments
from ludus.train.torch_weights import Layout

Tensors = dict[str, NDArray[Any]]


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
    """The state that `state_tensors` wrote.

    Raises:
        CorruptRecord: names, shapes or types are not those of this learner.
    """
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
