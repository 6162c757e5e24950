"""Which weights a language-model policy has, what they are called, and how they begin.

A policy is adapters (LoRA, in peft's names) or every parameter of the model (in transformers' names); with a critic it
also has a value head on the last hidden state. What is published and saved is exactly these.
"""

from __future__ import annotations

import numpy as np

from ludus.config import LoraConfig
from ludus.lm.adapters import adapter_shapes, init_adapter
from ludus.lm.language_models import LanguageModel
from ludus.train.torch_scoring import VALUE_BIAS, VALUE_WEIGHT
from ludus.train.torch_state import Tensors


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
