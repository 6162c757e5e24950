"""How a language model scores sampled tokens: what every forward pass is to a learner, and the one for any model.

`TransformersForward` runs the model's own code on padded rows; adapters are added at the outputs of its linear layers.
It serves every architecture and is what faster ones are tested against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel

from ludus.config import LoraConfig
from ludus.lm.adapters import PREFIX, A, B, adapter_names
from ludus.records import Experiences
from ludus.train.token_rows import Ints, Targets
from ludus.train.torch_state import Leaves, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What the model thinks of each target, `[M]` in the order of `Targets`."""

    logp: torch.Tensor
    """Log-probability at the sampling temperature, float32."""
    entropy: torch.Tensor
    hidden: torch.Tensor
    """`[Q, d]`: last hidden states, as the output head sees them; for a critic."""
    place: torch.Tensor
    """`[M]`: which of them predicts the target."""


class Forward(Protocol):
    """A forward pass with gradients."""

    fused: tuple[Names, ...]
    """Weights that it wants behind each other, so that several matrices are one."""

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Cut a minibatch: the rows of each part, so that no part computes more than so many tokens (or is one row)."""
        ...

    def score(self, rows: Experiences, targets: Targets, weights: Leaves | None, *, temperature: float) -> Scores:
        """Score the targets. `weights` None: the base model as it is, without adapters."""
        ...

    def release(self) -> None:
        """Let go of the weights of the last call: its gradient has been taken. The base model is as it was."""
        ...


class TransformersForward:
    """The model's own forward, on rows padded to the longest."""

    fused: tuple[Names, ...] = ()

    def __init__(self, model: PreTrainedModel, *, lora: LoraConfig | None, checkpointing: bool = False) -> None:
        self._model, self._lora = model, lora
        self._adapted: Leaves | None = None
        self._parameters = _holders(model)
        if lora is not None:
            for name in adapter_names(model, lora):
                model.get_submodule(name).register_forward_hook(self._hook(PREFIX + name, lora.alpha / lora.rank))
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.train()
            _turn_off_dropout(model)

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Rows of like length together, padding counted."""
        return cut_by_length(rows.lengths - 1, tokens)

    def score(self, rows: Experiences, targets: Targets, weights: Leaves | None, *, temperature: float) -> Scores:
        """Score the targets; logits are kept from the first position that is wanted in any row."""
        owner = rows.sequence_of_step()[targets.elements]
        column = targets.elements - rows.offsets[owner] - 1
        first = int(column.min())
        device = self._model.device
        tokens, attention = (x.to(device) for x in _padded_tokens(rows))
        self._install(weights)
        output: Any = self._model(
            input_ids=tokens,
            attention_mask=attention,
            logits_to_keep=tokens.shape[1] - first,
            use_cache=False,
            output_hidden_states=True,
        )
        at = (torch.from_numpy(owner).to(device), torch.from_numpy(column - first).to(device))
        logits = output.logits[at].float() / temperature
        sampled = torch.from_numpy(rows.steps["action"][targets.elements].astype(np.int64)).to(device)
        log_probs = functional.log_softmax(logits, dim=-1)
        return Scores(
            logp=log_probs.gather(1, sampled[:, None])[:, 0],
            entropy=-(log_probs.exp() * log_probs).sum(-1),
            hidden=output.hidden_states[-1][:, first:][at],
            place=torch.arange(len(sampled), device=device),
        )

    def release(self) -> None:
        """Take adapters and trained parameters out of the model again."""
        self._install(None)

    def _install(self, weights: Leaves | None) -> None:
        """Let the model compute with these. They stay until `release`: checkpointing computes again in the gradient."""
        if self._lora is not None:
            self._adapted = weights
            return
        for name, (base, holders) in self._parameters.items():
            parameter = base if weights is None else weights[name].to(base.dtype)
            for holder, key in holders:
                holder[key] = parameter

    def _hook(self, name: str, scaling: float) -> Any:
        def add(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
            if self._adapted is None or name + A not in self._adapted:
                return None
            x = inputs[0]
            down, up = (self._adapted[name + part].to(x.dtype) for part in (A, B))
            return output + functional.linear(functional.linear(x, down), up) * scaling

        return add


def cut_by_length(lengths: Ints, tokens: int) -> list[Ints]:
    """Rows in parts that hold at most so many tokens when padded to their longest, or one row; longest first."""
    order = np.argsort(-lengths, kind="stable")
    parts, start = [], 0
    while start < len(order):
        size = max(1, tokens // max(1, int(lengths[order[start]])))
        parts.append(order[start : start + size])
        start += size
    return parts


def _holders(model: PreTrainedModel) -> dict[str, tuple[torch.Tensor, list[tuple[dict[str, Any], str]]]]:
    """Every parameter by name, with each place in a module that holds it (tied ones have several)."""
    places: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for module in model.modules():
        for key, parameter in module._parameters.items():
            places.setdefault(id(parameter), []).append((module._parameters, key))
    return {name: (parameter, places[id(parameter)]) for name, parameter in model.named_parameters()}


def _padded_tokens(rows: Experiences) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and their presence, `[B, T]`, without each row's last token."""
    lengths = rows.lengths - 1
    tokens = np.zeros((len(rows), int(lengths.max())), np.int64)
    present = np.arange(tokens.shape[1]) < lengths[:, None]
    inner = np.ones(rows.step_count, bool)
    inner[rows.offsets[1:] - 1] = False
    tokens[present] = rows.steps["action"][inner]
    return torch.from_numpy(tokens), torch.from_numpy(present.astype(np.int64))


def _turn_off_dropout(model: torch.nn.Module) -> None:
    """Transformers checkpoints only in training mode, where dropout would be on."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
