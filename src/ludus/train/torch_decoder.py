"""A forward pass for models of the Llama family (Llama, Mistral, Qwen2, Qwen3), straight from the weights.

It computes what transformers computes, with less: a family's prompt once, rows without padding, logits only where the
policy sampled, the last layer only where it is looked at; projections that share their input are one matrix.

To add an architecture: a line in `_KINDS` if its layers are the same, and a case in the tests, which compare with
transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from ludus.config import LoraConfig
from ludus.lm.adapters import PREFIX, A, B, adapter_names
from ludus.lm.prefix_tree import Forest, cut_by_family, plant
from ludus.lm.torch_attention import AttentionPlan, Heads, attend
from ludus.lm.torch_training import adapted_linear, rms_norm, swiglu
from ludus.records import Experiences
from ludus.train.token_rows import Ints, Targets, targets_of
from ludus.train.torch_forward import Forward, Scores, TransformersForward
from ludus.train.torch_head import token_scores
from ludus.train.torch_weights import Leaves, Names

_KINDS = {"llama", "mistral", "qwen2", "qwen3"}
_ROTARY = {"default", "linear", "llama3", "yarn"}


def build_forward(model: PreTrainedModel, *, lora: LoraConfig | None, checkpointing: bool = False) -> Forward:
    """The fastest forward pass that computes the model exactly."""
    kind = DecoderForward if is_supported(model) else TransformersForward
    return kind(model, lora=lora, checkpointing=checkpointing)


def is_supported(model: PreTrainedModel) -> bool:
    """Whether the model is one that `DecoderForward` computes exactly."""
    config = model.config
    if config.model_type not in _KINDS or config.hidden_act != "silu":
        return False
    slides = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    kinds = set(getattr(config, "layer_types", None) or ("full_attention",))
    rotary = getattr(getattr(model.model, "rotary_emb", None), "rope_type", None)
    return not slides and kinds == {"full_attention"} and rotary in _ROTARY and model.lm_head.bias is None


class Projection:
    """Linear layers that share their input, as one matrix; with or without adapters."""

    def __init__(self, model: PreTrainedModel, modules: Names, adapted: frozenset[str], scale: float) -> None:
        layers: list[Any] = [model.get_submodule(name) for name in modules]
        self.weights = tuple(f"{name}.weight" for name in modules)
        self.biases = tuple(f"{name}.bias" for name in modules) if layers[0].bias is not None else ()
        self._weight = _joined([layer.weight for layer in layers])
        self._bias = _joined([layer.bias for layer in layers]) if self.biases else None
        heights = [layer.weight.shape[0] for layer in layers]
        chosen = [place for place, name in enumerate(modules) if name in adapted]
        self.downs = tuple(PREFIX + modules[place] + A for place in chosen)
        self._ups = tuple(PREFIX + modules[place] + B for place in chosen)
        self._places = tuple(sum(heights[:place]) for place in chosen)
        self._scale = scale

    def __call__(self, x: torch.Tensor, weights: Leaves | None, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Outputs of all layers beside each other, added to `residual` where there is one."""
        weight, bias = self._weight, self._bias
        if weights is not None and self.weights[0] in weights:
            weight = weights.fused(self.weights).to(x.dtype)
            bias = weights.fused(self.biases).to(x.dtype) if self.biases else None
        elif weights is not None and self.downs:
            down = weights.fused(self.downs).to(x.dtype)
            ups = tuple(weights[name].to(x.dtype) for name in self._ups)
            return adapted_linear(x, weight, bias, residual, down, ups, places=self._places, scale=self._scale)
        if residual is None:
            return functional.linear(x, weight, bias)
        y = torch.addmm(residual, x, weight.t())
        return y if bias is None else y + bias


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The parts of one decoder layer."""

    name: str
    qkv: Projection
    out: Projection
    gate_up: Projection
    down: Projection


class DecoderForward:
    """The forward pass of one model, with adapters or with all parameters trained."""

    def __init__(self, model: PreTrainedModel, *, lora: LoraConfig | None, checkpointing: bool = False) -> None:
        config = model.config
        self._model, self._checkpointing = model, checkpointing
        adapted = frozenset(() if lora is None else adapter_names(model, lora))
        scale = 1.0 if lora is None else lora.alpha / lora.rank
        self._layers = [
            _layer(model, f"model.layers.{number}", adapted, scale) for number in range(config.num_hidden_layers)
        ]
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._heads = Heads(
            queries=config.num_attention_heads,
            keys=config.num_key_value_heads,
            size=size,
            scale=size**-0.5,
            eps=config.rms_norm_eps,
        )
        self._base = dict(model.named_parameters())
        projections = [p for layer in self._layers for p in (layer.qkv, layer.out, layer.gate_up, layer.down)]
        groups = [names for p in projections for names in (p.weights, p.biases, p.downs)]
        self.fused: tuple[Names, ...] = tuple(names for names in groups if len(names) > 1)

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Families together, their prompt counted once."""
        return cut_by_family(rows, targets_of(rows).elements, tokens)

    def score(self, rows: Experiences, targets: Targets, weights: Leaves | None, *, temperature: float) -> Scores:
        """Score the targets."""
        forest = plant(rows, targets.elements)
        device = self._model.device
        hidden = self._hidden(forest, weights, device)
        place = torch.from_numpy(forest.place).to(device)
        token = torch.from_numpy(rows.steps["action"][targets.elements].astype(np.int64)).to(device)
        head = self._weight("model.embed_tokens.weight" if self._is_tied else "lm_head.weight", weights)
        logp, entropy = token_scores(hidden, head, place, token, temperature=temperature)
        return Scores(logp=logp, entropy=entropy, hidden=hidden, place=place)

    def release(self) -> None:
        """Nothing is kept between calls."""

    @property
    def _is_tied(self) -> bool:
        return "lm_head.weight" not in self._base

    def _hidden(self, forest: Forest, weights: Leaves | None, device: torch.device) -> torch.Tensor:
        """The last hidden states `[Q, d]` of the rows that are wanted."""
        tokens = torch.from_numpy(forest.tokens).to(device)
        x = functional.embedding(tokens, self._weight("model.embed_tokens.weight", weights))
        positions = torch.from_numpy(forest.positions).to(device)
        cos, sin = self._model.model.rotary_emb(x, positions[None])
        plan = AttentionPlan(forest, cos[0], sin[0])
        wanted = torch.from_numpy(forest.wanted).to(device)
        for layer in self._layers:
            kept = wanted if layer is self._layers[-1] else None
            if self._checkpointing and weights is not None:
                x = checkpoint(self._run, layer, x, plan, weights, kept, use_reentrant=False)
            else:
                x = self._run(layer, x, plan, weights, kept)
        return rms_norm(x, self._weight("model.norm.weight", weights), self._heads.eps)

    def _run(
        self,
        layer: Layer,
        x: torch.Tensor,
        plan: AttentionPlan,
        weights: Leaves | None,
        kept: torch.Tensor | None,
    ) -> torch.Tensor:
        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return rms_norm(x, self._weight(f"{layer.name}.{name}.weight", weights), self._heads.eps)

        qkv = layer.qkv(norm(x, "input_layernorm"), weights)
        seen = attend(qkv, *self._head_norms(layer, weights), self._heads, plan)
        if kept is not None:
            x, seen = x.index_select(0, kept), seen.index_select(0, kept)
        x = layer.out(seen, weights, residual=x)
        return layer.down(swiglu(layer.gate_up(norm(x, "post_attention_layernorm"), weights)), weights, residual=x)

    def _head_norms(self, layer: Layer, weights: Leaves | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        name = f"{layer.name}.self_attn.q_norm.weight"
        if name not in self._base:
            return None, None
        return self._weight(name, weights), self._weight(f"{layer.name}.self_attn.k_norm.weight", weights)

    def _weight(self, name: str, weights: Leaves | None) -> torch.Tensor:
        base = self._base[name]
        return weights[name].to(base.dtype) if weights is not None and name in weights else base


def _layer(model: PreTrainedModel, name: str, adapted: frozenset[str], scale: float) -> Layer:
    def projection(*parts: str) -> Projection:
        return Projection(model, tuple(f"{name}.{part}" for part in parts), adapted, scale)

    return Layer(
        name=name,
        qkv=projection("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        out=projection("self_attn.o_proj"),
        gate_up=projection("mlp.gate_proj", "mlp.up_proj"),
        down=projection("mlp.down_proj"),
    )


def _joined(parameters: list[Any]) -> torch.Tensor:
    """The parameters below each other; they become views of the result, so that nothing is held twice."""
    if len(parameters) == 1:
        alone: torch.Tensor = parameters[0].data
        return alone
    joined = torch.cat([parameter.data for parameter in parameters])
    for parameter, part in zip(parameters, torch.split(joined, [len(p) for p in parameters]), strict=True):
        parameter.data = part
    return joined
