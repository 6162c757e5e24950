"""The architectures that the decoder computes itself, for training and for generation, and why it refuses others.

Covered: the Llama, Qwen2, Qwen3 and Mistral families with rotary positions that do not change with the length
(`default`, `linear`, `llama3`, `yarn`). Not covered, and left to transformers' own forward: other families, sliding
windows shorter than the context, other activations, a bias at the output head. To cover another family, extend
`ARCHITECTURES` and, where its layers differ, `weights.py` and `decoder.py`; tests/lm/test_decoder_model.py and
tests/train/test_torch_forward.py compare each family with transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

ARCHITECTURES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
FIXED_ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})


class NotCovered(Exception):
    """The decoder does not compute what a model computes; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes of a decoder and the angles of its positions."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    hidden: int
    vocabulary: int
    epsilon: float
    cosines: Tensor
    """`[context, head_width / 2]`."""
    sines: Tensor
    """`[context, head_width / 2]`."""

    @property
    def context(self) -> int:
        """Positions that can be computed."""
        return self.cosines.shape[0]


def read_architecture(model: PreTrainedModel, *, context: int) -> Architecture:
    """Sizes and angles of a model. Raises NotCovered if the decoder does not compute what it computes."""
    config: Any = model.config
    _refuse_strangers(config, context)
    network: Any = model
    if getattr(network.get_output_embeddings(), "bias", None) is not None:
        raise NotCovered("the output head has a bias")
    heads = int(config.num_attention_heads)
    cosines, sines = _angles(model, context)
    return Architecture(
        layers=int(config.num_hidden_layers),
        width=int(config.hidden_size),
        heads=heads,
        kv_heads=int(config.num_key_value_heads or heads),
        head_width=2 * cosines.shape[1],
        hidden=int(config.intermediate_size),
        vocabulary=int(config.vocab_size),
        epsilon=float(config.rms_norm_eps),
        cosines=cosines,
        sines=sines,
    )


def _refuse_strangers(config: Any, context: int) -> None:
    if config.model_type not in ARCHITECTURES:
        raise NotCovered(f"the family {config.model_type!r} is not one of {', '.join(sorted(ARCHITECTURES))}")
    if config.hidden_act != "silu":
        raise NotCovered(f"the activation is {config.hidden_act!r}, not 'silu'")
    rotation = config.rope_parameters["rope_type"]
    if rotation not in FIXED_ROTATIONS:
        raise NotCovered(f"positions rotate by {rotation!r}, which changes with the length")
    window = attention_window(config)
    if window is not None and window < context:
        raise NotCovered(f"attention reaches back {window} tokens only, and the context has {context}")


def attention_window(config: Any) -> int | None:
    """How far back the shortest-sighted layer sees; None if every layer sees everything."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if window is None or (kinds is not None and "sliding_attention" not in kinds):
        return None
    return int(window)


def _angles(model: PreTrainedModel, context: int) -> tuple[Tensor, Tensor]:
    rotation: Any = model.get_submodule("model.rotary_emb")
    frequencies = rotation.inv_freq.to(torch.float32)
    expected = getattr(model.config, "head_dim", None) or model.config.hidden_size // model.config.num_attention_heads
    if 2 * len(frequencies) != expected:
        raise NotCovered(f"only {2 * len(frequencies)} of {expected} numbers of a head rotate")
    turns = torch.arange(context, dtype=torch.float32, device=frequencies.device)[:, None] * frequencies
    scale = float(rotation.attention_scaling)
    return (turns.cos() * scale).contiguous(), (turns.sin() * scale).contiguous()
