"""Low-rank adapters as named float32 arrays, in the names and shapes that peft reads.

For a linear layer `h = W x`, the adapted one is `h = W x + alpha / rank * B (A x)` with A `[r, in]` and B `[out, r]`.

Invariant: B begins at zero, so a new adapter changes nothing; an adapter depends on the seed, the layers' names and
their shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import LoraConfig
from ludus.errors import ConfigError
from ludus.weight_init import Beginning, draw

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PREFIX = "base_model.model."
"""Before a module's name in peft's tensor names."""
VALUE_PREFIX = "value_head."
"""Names of a critic's tensors begin so: `value_head.weight` `[1, d]` and `value_head.bias` `[1]`."""
A, B = ".lora_A.weight", ".lora_B.weight"
"""After it."""


def adapter_names(model: PreTrainedModel, lora: LoraConfig) -> tuple[str, ...]:
    """The linear layers that get an adapter, in the model's order. Raises ConfigError if a target names none."""
    layers = tuple(linear_layers(model))
    if lora.targets is None:
        return layers
    for target in lora.targets:
        if not any(_is_named(name, target) for name in layers):
            known = ", ".join(sorted({name.rpartition(".")[2] for name in layers}))
            raise ConfigError(f"lora.targets: the model has no linear layer {target!r}; it has: {known}")
    return tuple(name for name in layers if any(_is_named(name, target) for target in lora.targets))


def linear_layers(model: PreTrainedModel) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of every linear layer but the output head, by module name."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    network: Any = model
    head = network.get_output_embeddings()
    layers = {name: module for name, module in model.named_modules() if module is not head}
    linear = {name: module.weight.shape for name, module in layers.items() if isinstance(module, nn.Linear)}
    # GPT-2's own linear layer keeps its matrix the other way round.
    turned = {name: module.weight.shape[::-1] for name, module in layers.items() if isinstance(module, Conv1D)}
    found = {**linear, **turned}
    return {name: (found[name][0], found[name][1]) for name in layers if name in found}


def adapter_shapes(model: PreTrainedModel, lora: LoraConfig) -> dict[str, tuple[int, int]]:
    """Shape of every adapter tensor by name."""
    layers = linear_layers(model)
    shapes: dict[str, tuple[int, int]] = {}
    for name in adapter_names(model, lora):
        outputs, inputs = layers[name]
        shapes[PREFIX + name + A] = (lora.rank, inputs)
        shapes[PREFIX + name + B] = (outputs, lora.rank)
    return shapes


def init_adapter(model: PreTrainedModel, lora: LoraConfig, seed: int) -> dict[str, NDArray[np.float32]]:
    """A new adapter, as peft begins one: A uniform within 1 / sqrt(in), B zero."""
    return {
        name: draw(_beginning(name, shape), seed=seed, name=name, shape=shape)
        for name, shape in adapter_shapes(model, lora).items()
    }


def check_adapter(tensors: Mapping[str, NDArray[Any]], model: PreTrainedModel, lora: LoraConfig) -> None:
    """Raise ConfigError unless these are an adapter for exactly these layers; a critic's head is passed over."""
    expected = adapter_shapes(model, lora)
    check_fit("the adapter does not fit the model", tensors, expected, needed=expected)


def check_fit(
    problem: str, tensors: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], *, needed: Iterable[str]
) -> None:
    """Raise ConfigError, a `problem` and its cause, unless the tensors are the `needed` ones, with these shapes."""
    if missing := [name for name in needed if name not in tensors]:
        raise ConfigError(f"{problem}: there is no {missing[0]}")
    for name, shape in shapes.items():
        if name in tensors and (found := tuple(tensors[name].shape)) != shape:
            raise ConfigError(f"{problem}: {name} has shape {list(found)}, the model needs {list(shape)}")
    if unknown := sorted(name for name in tensors if name not in shapes and not name.startswith(VALUE_PREFIX)):
        raise ConfigError(f"{problem}: there is {unknown[0]}, which belongs to no layer")


def adapter_config_json(path: str, lora: LoraConfig, tensors: Iterable[str]) -> dict[str, Any]:
    """What peft and vLLM read beside the tensors: rank, scale, and the layers by the last part of their names."""
    found = {name.removeprefix(PREFIX).removesuffix(A) for name in tensors if name.endswith(A)}
    targets = lora.targets or {name.rpartition(".")[2] for name in found}
    return {
        "base_model_name_or_path": path,
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
        "r": lora.rank,
        "lora_alpha": int(lora.alpha) if float(lora.alpha).is_integer() else lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "target_modules": sorted(targets),
    }


def _is_named(name: str, target: str) -> bool:
    return name == target or name.endswith("." + target)


def _beginning(name: str, shape: tuple[int, int]) -> Beginning:
    return Beginning("uniform", 1 / sqrt(shape[1])) if name.endswith(A) else Beginning("zeros")
