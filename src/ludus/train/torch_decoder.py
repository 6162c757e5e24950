"""A forward pass for the architectures that `ludus.lm` knows, straight from the weights.

It computes what transformers computes, with less: a family's prompt once, rows without padding, logits only where the
policy sampled, the last layer only where it is looked at; projections that share their input are one matrix.

Logits of many tokens over a large vocabulary are the largest thing a language model computes. They are made in pieces;
a small table is kept for the gradient, a large one is made again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from ludus.config import LoraConfig
from ludus.lm.adapters import PREFIX, A, B, adapter_names
from ludus.lm.architectures import Architecture, NotCovered, read_architecture
from ludus.lm.decoder import run_layer
from ludus.lm.prefix_tree import PrefixTree, build_prefix_tree, cut_by_family
from ludus.lm.training import Training
from ludus.lm.weights import SITES, DecoderWeights, Linear, LowRank, build_weights
from ludus.records import Experiences
from ludus.train.token_rows import Ints, Targets, targets_of
from ludus.train.torch_forward import Forward, Scores, TransformersForward
from ludus.train.torch_state import Leaves, Names

KEPT_LOGITS = 1 << 22
"""Numbers in a table of logits that may be kept (16 MB); a larger one is made in pieces of this size."""


def build_forward(
    model: PreTrainedModel, *, context: int, lora: LoraConfig | None, checkpointing: bool = False
) -> Forward:
    """The fastest forward pass that computes the model exactly, for sequences of so many tokens."""
    try:
        architecture = read_architecture(model, context=context)
    except NotCovered:
        return TransformersForward(model, lora=lora, checkpointing=checkpointing)
    return DecoderForward(model, architecture, lora=lora, checkpointing=checkpointing)


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


def token_scores(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    place: torch.Tensor,
    token: torch.Tensor,
    *,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability `[M]` of each token, and entropy `[M]` of what it was chosen from, float32.

    Args:
        hidden: `[Q, d]`.
        weight: `[V, d]`, the output head.
        place: `[M]`: which hidden state predicts each token.
        token: `[M]`.
        temperature: logits are divided by it.
    """
    logp, entropy = _TokenScores.apply(hidden, weight, place, token, temperature)  # type: ignore[no-untyped-call]
    return logp, entropy.index_select(0, place)


class _TokenScores(Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        place: torch.Tensor,
        token: torch.Tensor,
        temperature: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        entropy = hidden.new_empty(len(hidden), dtype=torch.float32)
        logp = hidden.new_empty(len(token), dtype=torch.float32)
        pieces = _pieces(len(hidden), len(weight))
        kept: tuple[torch.Tensor, ...] = ()
        for rows in pieces:
            log_probs = _log_probs(hidden[rows], weight, temperature)
            probabilities = log_probs.exp()
            here = _within(place, rows)
            logp[here] = log_probs[place[here] - rows.start, token[here]]
            entropy[rows] = -torch.linalg.vecdot(probabilities, log_probs)
            kept = (log_probs, probabilities) if len(pieces) == 1 else ()
        ctx.save_for_backward(hidden, weight, place, token, entropy, *kept)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logp, entropy

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_logp: torch.Tensor | None, of_entropy: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, place, token, entropy, *kept = ctx.saved_tensors
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        if of_logp is None:
            of_logp = entropy.new_zeros(len(token))
        per_row = torch.zeros_like(entropy).index_add_(0, place, of_logp)
        for rows in _pieces(len(hidden), len(weight)):
            log_probs = kept[0] if kept else _log_probs(hidden[rows], weight, ctx.temperature)
            probabilities = kept[1] if kept else log_probs.exp()
            if of_entropy is None:
                of_logits = probabilities * -per_row[rows, None]
            else:
                inner = (log_probs + entropy[rows, None]).mul_(of_entropy[rows, None]).add_(per_row[rows, None])
                of_logits = inner.mul_(probabilities).neg_()
            here = _within(place, rows)
            of_logits.index_put_((place[here] - rows.start, token[here]), of_logp[here], accumulate=True)
            of_logits = of_logits.div_(ctx.temperature).to(hidden.dtype)
            torch.mm(of_logits, weight, out=of_hidden[rows])
            if of_weight is not None:
                of_weight.addmm_(of_logits.t(), hidden[rows])
        return of_hidden, of_weight, None, None, None


def _log_probs(hidden: torch.Tensor, weight: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = torch.mm(hidden, weight.t()).float()
    return torch.log_softmax(logits if temperature == 1.0 else logits.div_(temperature), dim=-1)


def _pieces(count: int, vocabulary: int) -> list[slice]:
    """Rows of each piece; all in one when the table may be kept."""
    size = max(1, KEPT_LOGITS // vocabulary)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _within(place: torch.Tensor, rows: slice) -> torch.Tensor:
    found: torch.Tensor = ((place >= rows.start) & (place < rows.stop)).nonzero()[:, 0]
    return found
