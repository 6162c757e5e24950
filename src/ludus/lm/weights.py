"""A version's parameters as the lean decoder wants them: matrices that are multiplied together stand together.

Invariant: what is computed from these is what transformers computes from the parameters, to float32 rounding. Nothing
here is written to after it was made, so decoders may share the parts that are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ludus.config import LoraConfig
from ludus.errors import ConfigError
from ludus.lm.adapters import PREFIX, VALUE_PREFIX, A, B, check_adapter
from ludus.lm.architectures import Architecture

Tensors = Mapping[str, NDArray[Any]]
Parameters = Callable[[str], Tensor | None]
"""A parameter by its transformers name; None if the model has none of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer. Matrices are `[in, out]`."""

    attention_norm: Tensor
    qkv: Tensor
    """`[width, (heads + 2 kv_heads) * head_width]`."""
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    """`[width, 2 hidden]`."""
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """All parameters of one version."""

    embedding: Tensor
    """`[vocabulary, width]`."""
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor
    """`[width, vocabulary]`."""


def fuse_weights(architecture: Architecture, parameters: Parameters) -> DecoderWeights:
    """Put a model's parameters together for the lean decoder."""

    def need(name: str) -> Tensor:
        tensor = parameters(name)
        if tensor is None:
            raise KeyError(name)
        return tensor

    embedding = need("model.embed_tokens.weight")
    head = parameters("lm_head.weight")
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(_fuse_layer(f"model.layers.{i}.", parameters, need) for i in range(architecture.layers)),
        norm=need("model.norm.weight"),
        head=(embedding if head is None else head).t().contiguous(),
    )


def _fuse_layer(at: str, parameters: Parameters, need: Callable[[str], Tensor]) -> LayerWeights:
    def matrix(*names: str) -> Tensor:
        return torch.cat([need(f"{at}{name}.weight") for name in names]).t().contiguous()

    def bias(*names: str) -> Tensor | None:
        found = [tensor for name in names if (tensor := parameters(f"{at}{name}.bias")) is not None]
        return torch.cat(found) if found else None

    projections = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return LayerWeights(
        attention_norm=need(f"{at}input_layernorm.weight"),
        qkv=matrix(*projections),
        qkv_bias=bias(*projections),
        q_norm=parameters(f"{at}self_attn.q_norm.weight"),
        k_norm=parameters(f"{at}self_attn.k_norm.weight"),
        out=matrix("self_attn.o_proj"),
        out_bias=bias("self_attn.o_proj"),
        mlp_norm=need(f"{at}post_attention_layernorm.weight"),
        gate_up=matrix("mlp.gate_proj", "mlp.up_proj"),
        gate_up_bias=bias("mlp.gate_proj", "mlp.up_proj"),
        down=matrix("mlp.down_proj"),
        down_bias=bias("mlp.down_proj"),
    )


def check_version(tensors: Tensors, model: PreTrainedModel, lora: LoraConfig | None) -> None:
    """Raise unless a version's tensors fit the model; a critic's head is passed over.

    Raises:
        ConfigError: they do not.
    """
    if lora is not None:
        check_adapter(tensors, model, lora)
        return
    base = model.state_dict()
    missing = next((name for name, _ in model.named_parameters() if name not in tensors), None)
    if missing is not None:
        raise ConfigError(f"the weights do not fit the model: they have no {missing}")
    for name, tensor in tensors.items():
        if name.startswith(VALUE_PREFIX):
            continue
        if name not in base:
            raise ConfigError(f"the weights do not fit the model: it has no {name}")
        if tuple(tensor.shape) != tuple(base[name].shape):
            shapes = f"{list(tensor.shape)}, the model needs {list(base[name].shape)}"
            raise ConfigError(f"the weights do not fit the model: {name} has shape {shapes}")


def version_parameters(model: PreTrainedModel, tensors: Tensors, lora: LoraConfig | None) -> dict[str, Tensor]:
    """The model's parameters in one version: merged with its adapter, or (`lora` None) exchanged for its own."""
    base = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    if lora is None:
        own = {name: torch.from_numpy(np.array(array)) for name, array in tensors.items() if name in base}
        if model.config.tie_word_embeddings and "lm_head.weight" not in own:
            base.pop("lm_head.weight", None)
        return base | {name: tensor.to(base[name]) for name, tensor in own.items()}
    scale = lora.alpha / lora.rank
    changed = {
        name: _merge(model, name, base[name], tensors, scale)
        for name in base
        if PREFIX + name.removesuffix(".weight") + A in tensors
    }
    return base | changed


def _merge(model: PreTrainedModel, name: str, weight: Tensor, tensors: Tensors, scale: float) -> Tensor:
    module = name.removesuffix(".weight")
    down, up = (torch.from_numpy(np.array(tensors[PREFIX + module + end], np.float32)) for end in (A, B))
    change = (scale * (up @ down)).to(weight.device)
    if isinstance(model.get_submodule(module), Conv1D):
        change = change.t()
    return (weight.to(torch.float32) + change).to(weight.dtype)
