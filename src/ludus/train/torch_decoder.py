"""A forward pass for the architectures that `ludus.lm` knows, straight from the weights.

It computes what transformers computes, with less: a family's prompt once, rows without padding, logits only where the
policy sampled, the last layer only where it is looked at; projections that share their input are one matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from ludus.config import LoraConfig
from ludus.lm.adapters import PREFIX, A, B, adapter_names
from ludus.lm.architectures import Architecture
from ludus.lm.decoder import run_layer
from ludus.lm.prefix_tree import PrefixTree, build_prefix_tree, cut_by_family
from ludus.lm.training import Training
from ludus.lm.weights import SITES, DecoderWeights, Linear, LowRank, build_weights
from ludus.records import Experiences
from ludus.train.token_rows import Ints, Targets, targets_of
from ludus.train.torch_forward import Scores
from ludus.train.torch_head import token_scores
from ludus.train.torch_state import Leaves, Names


class Projection:
    """Linear layers that share their input, as one matrix; with or without adapters."""

    def __init__(self, model: PreTrainedModel, number: int, modules: Names, adapted: frozenset[str], scale: float):
        layers: list[Any] = [model.get_submodule(name) for name in modules]
        self.weights = tuple(f"{name}.weight" for name in modules)
        self.biases = tuple(f"{name}.bias" for name in modules) if layers[0].bias is not None else ()
        self._base = Linear(
            matrix=_joined([layer.weight for layer in layers]).t(),
            bias=_joined([layer.bias for layer in layers]) if self.biases else None,
            number=number,
        )
        heights = [layer.weight.shape[0] for layer in layers]
        chosen = [place for place, name in enumerate(modules) if name in adapted]
        self.downs = tuple(PREFIX + modules[place] + A for place in chosen)
        self._ups = tuple(PREFIX + modules[place] + B for place in chosen)
        self._places = tuple(sum(heights[:place]) for place in chosen)
        self._scale = scale

    def bind(self, weights: Leaves | None) -> Linear:
        """The product with these weights; None: as the base model has it."""
        base, dtype = self._base, self._base.matrix.dtype
        if weights is not None and self.weights[0] in weights:
            bias = weights.fused(self.biases).to(dtype) if self.biases else None
            return Linear(matrix=weights.fused(self.weights).to(dtype).t(), bias=bias, number=base.number)
        if weights is not None and self.downs:
            adapter = LowRank(
                down=weights.fused(self.downs).to(dtype),
                ups=tuple(weights[name].to(dtype) for name in self._ups),
                places=self._places,
                scale=self._scale,
            )
            return Linear(matrix=base.matrix, bias=base.bias, number=base.number, adapter=adapter)
        return base


class DecoderForward:
    """The forward pass of one model, with adapters or with all parameters trained."""

    is_collective = False

    def __init__(
        self,
        model: PreTrainedModel,
        architecture: Architecture,
        *,
        lora: LoraConfig | None,
        checkpointing: bool = False,
    ) -> None:
        self._architecture, self._device, self._checkpointing = architecture, model.device, checkpointing
        adapted = frozenset(() if lora is None else adapter_names(model, lora))
        scale = 1.0 if lora is None else lora.alpha / lora.rank
        sites = [
            tuple(f"model.layers.{layer}.{name}" for name in names)
            for layer in range(architecture.layers)
            for names in SITES.values()
        ]
        self._projections = [Projection(model, number, names, adapted, scale) for number, names in enumerate(sites)]
        self._base = dict(model.named_parameters())
        groups = [names for p in self._projections for names in (p.weights, p.biases, p.downs)]
        self.fused: tuple[Names, ...] = tuple(names for names in groups if len(names) > 1)

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Families together, their prompt counted once."""
        return cut_by_family(rows, targets_of(rows).elements, tokens)

    def score(self, rows: Experiences, targets: Targets, weights: Leaves | None, *, temperature: float) -> Scores:
        """Score the targets."""
        tree, bound = build_prefix_tree(rows, targets.elements), self._bind(weights)
        hidden = self._hidden(tree, bound, recomputes=self._checkpointing and weights is not None)
        place = torch.from_numpy(tree.place).to(self._device)
        token = torch.from_numpy(rows.steps["action"][targets.elements].astype(np.int64)).to(self._device)
        logp, entropy = token_scores(hidden, bound.head, place, token, temperature=temperature)
        return Scores(logp=logp, entropy=entropy, hidden=hidden, place=place)

    def idle(self, weights: Leaves | None) -> torch.Tensor:
        """Never needed: every trainer has all weights."""
        raise NotImplementedError

    def release(self) -> None:
        """Nothing is kept between calls."""

    def _hidden(self, tree: PrefixTree, weights: DecoderWeights, *, recomputes: bool) -> torch.Tensor:
        """The last hidden states `[Q, d]` of the rows that are wanted."""
        do = Training(self._architecture, tree)
        x = functional.embedding(torch.from_numpy(tree.tokens).to(self._device), weights.embedding)
        wanted = torch.from_numpy(tree.wanted).to(self._device)
        for layer in weights.layers:
            kept = wanted if layer is weights.layers[-1] else None
            if recomputes:
                x = checkpoint(run_layer, do, layer, x, kept, use_reentrant=False)
            else:
                x = run_layer(do, layer, x, kept)
        return do.rms_norm(x, weights.norm)

    def _bind(self, weights: Leaves | None) -> DecoderWeights:
        def parameter(name: str) -> torch.Tensor | None:
            base = self._base.get(name)
            if base is None or weights is None or name not in weights:
                return base
            return weights[name].to(base.dtype)

        def linear(number: int, _: Names) -> Linear:
            return self._projections[number].bind(weights)

        return build_weights(self._architecture.layers, parameter, linear)


def _joined(parameters: list[Any]) -> torch.Tensor:
    """The parameters below each other; they become views of the result, so that nothing is held twice."""
    if len(parameters) == 1:
        alone: torch.Tensor = parameters[0].data
        return alone
    joined = torch.cat([parameter.data for parameter in parameters])
    for parameter, part in zip(parameters, torch.split(joined, [len(p) for p in parameters]), strict=True):
        parameter.data = part
    return joined
