"""A forward pass for any causal language model: the model's own code on rows packed without padding.

Rows stand behind each other in one long row, and `position_ids` begins again at 0 for each of them: that is how
transformers tells where attention must not reach. What a row holds after its last target is left out. Logits are made
by the head of `torch_head.py`, in pieces, where the model's own is a plain matrix.

Not every model honours packed rows (recurrent ones do not). Invariant: what is scored is what the model computes for
each row alone, to rounding; a model is tried when its forward is built, and one that fails gets its rows one by one.
A model that changes its logits (a bias, a scale, a cap) makes them itself, in one table for each part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from ludus.config import LoraConfig
from ludus.lm.adapters import PREFIX, A, B, adapter_names
from ludus.records import Experiences
from ludus.train.token_rows import Ints, Targets
from ludus.train.torch_forward import Scores
from ludus.train.torch_head import token_scores
from ludus.train.torch_state import Leaves, Names

log = logging.getLogger(__name__)

_CLOSE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 2e-2}
"""How far two ways through a model may differ, relative to the largest number."""


class Binding(Protocol):
    """Where a model's weights come from."""

    def bind(self, weights: Any) -> None:
        """Let the model compute with these from now on; None: as the base model is."""
        ...

    def adapter(self, module: str) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Both matrices of a linear layer's adapter; None where there is none now."""
        ...


class PackedForward:
    """The model's own forward on packed rows; adapters are added at the outputs of its linear layers."""

    fused: tuple[Names, ...] = ()

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        lora: LoraConfig | None,
        checkpointing: bool = False,
        binding: Binding | None = None,
        network: PackedNetwork | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """`network`: the model with its head, in shards; `dtype`: what it computes in. Default: as its weights are."""
        self.is_collective = network is not None
        self._binding: Binding = binding or LeafBinding(model, lora)
        for name in () if lora is None else adapter_names(model, lora):
            model.get_submodule(name).register_forward_hook(_adding(self._binding, name, lora.alpha / lora.rank))  # type: ignore[union-attr]
        use_best_attention(model, dtype or model.dtype)
        self._network = PackedNetwork(model) if network is None else network
        self._device = model.device
        self._network.try_out()
        if checkpointing:
            keep_activations_between_layers_only(model)

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Rows of like length together."""
        return cut_by_length(rows.lengths - 1, tokens)

    def score(self, rows: Experiences, targets: Targets, weights: Any, *, temperature: float) -> Scores:
        """Score the targets. The weights stay in the model until `release`: checkpointing computes with them again."""
        self._binding.bind(weights)
        packed = Packed.of(rows, targets.elements)
        token = torch.from_numpy(rows.steps["action"][targets.elements].astype(np.int64)).to(self._device)
        hidden, logp, entropy = self._network.score(packed, token, temperature)
        return Scores(logp=logp, entropy=entropy, hidden=hidden, place=torch.arange(len(token), device=self._device))

    def idle(self, weights: Any) -> torch.Tensor:
        """A pass over two tokens."""
        self._binding.bind(weights)
        two = np.zeros(2, np.int64)
        packed = Packed(tokens=two, positions=np.arange(2), lengths=np.array([2]), wanted=np.arange(2))
        _, logp, _ = self._network.score(packed, torch.zeros(2, dtype=torch.long, device=self._device), 1.0)
        anchor: torch.Tensor = 0.0 * logp.sum()
        return anchor

    def release(self) -> None:
        """The model is the base model again."""
        self._binding.bind(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Rows behind each other, without what follows their last targets."""

    tokens: Ints
    """`[R]`."""
    positions: Ints
    """`[R]`: from 0 in each row."""
    lengths: Ints
    """`[S]`."""
    wanted: Ints
    """`[M]`: which of them predicts each target."""

    @classmethod
    def of(cls, rows: Experiences, targets: Ints) -> Packed:
        """Pack sequences that each have a target (`[M]` places in the step columns). Offsets begin at 0."""
        owner = rows.sequence_of_step()[targets]
        within = targets - rows.offsets[owner]
        lengths = np.zeros(len(rows), np.int64)
        np.maximum.at(lengths, owner, within)
        starts = np.cumsum(lengths) - lengths
        positions = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
        places = np.repeat(rows.offsets[:-1], lengths) + positions
        tokens = np.asarray(rows.steps["action"], np.int64)[places]
        return cls(tokens=tokens, positions=positions, lengths=lengths, wanted=starts[owner] + within - 1)


class PackedNetwork(torch.nn.Module):
    """From packed rows to scores: a model with a head in pieces behind it, in one forward.

    Whatever is computed is computed within a call of the module, so that its shards are gathered for it.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.packs = self._has_plain_head = True

    def forward(self, compute: Callable[[], Any]) -> Any:
        """What it gives."""
        return compute()

    def score(self, packed: Packed, token: torch.Tensor, temperature: float) -> Any:
        """Hidden states `[M, d]`, log-probabilities and entropies `[M]` of the tokens `[M]`."""
        return self(lambda: self._score(packed, token, temperature))

    def _score(
        self, packed: Packed, token: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Hidden states `[M, d]`, log-probabilities and entropies `[M]` of the tokens `[M]`."""
        wanted = torch.from_numpy(packed.wanted).to(token.device)
        if not self._has_plain_head:
            hidden, logits = self._own_logits(packed, wanted)
            log_probs = functional.log_softmax(logits.float() / temperature, dim=-1)
            entropy = -(log_probs.exp() * log_probs).sum(-1)
            return hidden, log_probs.gather(1, token[:, None])[:, 0], entropy
        hidden = self._trunk(packed, token.device).index_select(0, wanted)
        head = output_head(self.model)
        place = torch.arange(len(token), device=token.device)
        logp, entropy = token_scores(hidden, head.weight, place, token, temperature=temperature)
        return hidden, logp, entropy

    def _trunk(self, packed: Packed, device: torch.device) -> torch.Tensor:
        """Last hidden states `[R, d]`."""
        trunk: Any = self.model.base_model
        pieces = [trunk(**inputs, use_cache=False).last_hidden_state[0] for inputs in self._inputs(packed, device)]
        return torch.cat(pieces) if len(pieces) > 1 else pieces[0]

    def _own_logits(self, packed: Packed, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states and the logits that the model itself makes of them."""
        seen: list[torch.Tensor] = []
        trunk: Any = self.model.base_model
        handle = trunk.register_forward_hook(lambda *call: seen.append(call[2].last_hidden_state[0]))
        try:
            every = [self.model(**each, use_cache=False).logits[0] for each in self._inputs(packed, wanted.device)]
        finally:
            handle.remove()
        return torch.cat(seen).index_select(0, wanted), torch.cat(every).index_select(0, wanted)

    def _inputs(self, packed: Packed, device: torch.device) -> list[dict[str, torch.Tensor]]:
        """What the model is called with: once, or once for each row."""
        tokens, positions = (torch.from_numpy(x).to(device) for x in (packed.tokens, packed.positions))
        sizes = [len(tokens)] if self.packs else packed.lengths.tolist()
        pairs = zip(torch.split(tokens, sizes), torch.split(positions, sizes), strict=True)
        return [{"input_ids": token[None], "position_ids": position[None]} for token, position in pairs]

    @torch.no_grad()
    def try_out(self) -> None:
        """See whether the model honours packed rows, and whether its head is a plain matrix."""
        self(self._try_out)

    def _try_out(self) -> None:
        device = self.model.device
        vocabulary = int(self.model.config.get_text_config().vocab_size)
        lengths = np.array([7, 3, 5])
        tokens = np.random.default_rng(0).integers(0, vocabulary, int(lengths.sum()))
        positions = np.concatenate([np.arange(length) for length in lengths])
        trial = Packed(tokens=tokens, positions=positions, lengths=lengths, wanted=np.arange(len(tokens)))
        together = self._trunk(trial, device)
        self.packs = False
        alone = self._trunk(trial, device)
        self.packs = is_close(together, alone)
        if not self.packs:
            log.warning(
                "%s does not keep packed rows apart; rows are computed one by one", self.model.config.model_type
            )
        hidden, logits = self._own_logits(trial, torch.arange(len(tokens), device=device))
        head = output_head(self.model)
        plain = type(head) is torch.nn.Linear and is_close(functional.linear(hidden, head.weight), logits)
        self._has_plain_head = plain


class LeafBinding:
    """Weights that are leaves of one flat vector: they stand in the model in place of its own."""

    def __init__(self, model: PreTrainedModel, lora: LoraConfig | None) -> None:
        self._has_adapters = lora is not None
        self._leaves: Leaves | None = None
        self._parameters = {} if self._has_adapters else _holders(model)

    def bind(self, weights: Leaves | None) -> None:
        """Put them in; None: the model's own."""
        self._leaves = weights
        for name, (base, holders) in self._parameters.items():
            parameter = base if weights is None else weights[name].to(base.dtype)
            for holder, key in holders:
                holder[key] = parameter

    def adapter(self, module: str) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Both matrices."""
        if not self._has_adapters or self._leaves is None:
            return None
        return self._leaves[PREFIX + module + A], self._leaves[PREFIX + module + B]


def cut_by_length(lengths: Ints, tokens: int) -> list[Ints]:
    """Rows in parts that hold at most so many tokens, or one row; longest first."""
    order = np.argsort(-lengths, kind="stable")
    parts: list[list[int]] = []
    spent = tokens
    for row in order.tolist():
        length = int(lengths[row])
        if not parts or spent + length > tokens:
            parts.append([])
            spent = 0
        parts[-1].append(row)
        spent += length
    return [np.array(part, np.int64) for part in parts]


def keep_activations_between_layers_only(model: PreTrainedModel) -> None:
    """Let layers be computed again for the gradient. Only the layers' own switch is on, so dropout stays off."""
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True


def use_best_attention(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Flash attention where it is installed, on a GPU in half precision: it packs rows without a mask."""
    from transformers.utils.import_utils import is_flash_attn_2_available

    has_flash = model.device.type == "cuda" and dtype != torch.float32 and is_flash_attn_2_available()
    if has_flash and getattr(model, "_supports_flash_attn", False):
        model.set_attn_implementation("flash_attention_2")


def output_head(model: PreTrainedModel) -> Any:
    """The module that makes logits of hidden states."""
    network: Any = model
    return network.get_output_embeddings()


def is_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors are equal to the rounding of their type."""
    limit = _CLOSE.get(expected.dtype, 5e-2)
    return bool((found - expected).abs().max() <= limit * expected.abs().max())


def _adding(binding: Binding, name: str, scale: float) -> Any:
    """A hook that adds an adapter's output to a linear layer's."""

    def add(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        if (pair := binding.adapter(name)) is None:
            return None
        x = inputs[0]
        down, up = (matrix.to(x.dtype) for matrix in pair)
        return output + functional.linear(functional.linear(x, down), up) * scale

    return add


def _holders(model: PreTrainedModel) -> Mapping[str, tuple[torch.Tensor, list[tuple[dict[str, Any], str]]]]:
    """Every parameter by name, with each place in a module that holds it (tied ones have several)."""
    places: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for module in model.modules():
        for key, parameter in module._parameters.items():
            places.setdefault(id(parameter), []).append((module._parameters, key))
    return {name: (parameter, places[id(parameter)]) for name, parameter in model.named_parameters()}
