"""What a forward pass is compared with: the model's own forward on padded rows, with weights and adapters merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ludus.config import LoraConfig
from ludus.lm.adapters import PREFIX, A, B, adapter_names
from ludus.records import Experiences
from ludus.train.token_rows import Ints, Targets
from ludus.train.torch_forward import Scores
from ludus.train.torch_packed import cut_by_length
from ludus.train.torch_state import Leaves, Names


class PaddedForward:
    """Slow, in much memory, and plain: logits of every place, the last hidden states of all layers."""

    fused: tuple[Names, ...] = ()

    def __init__(self, model: PreTrainedModel, *, lora: LoraConfig | None) -> None:
        self._model, self._lora = model, lora

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        return cut_by_length(rows.lengths, tokens)

    def score(self, rows: Experiences, targets: Targets, weights: Leaves | None, *, temperature: float) -> Scores:
        owner = rows.sequence_of_step()[targets.elements]
        column = targets.elements - rows.offsets[owner] - 1
        tokens = np.zeros((len(rows), int(rows.lengths.max())), np.int64)
        present = np.arange(tokens.shape[1]) < rows.lengths[:, None]
        tokens[present] = rows.steps["action"]
        arguments = {
            "input_ids": torch.from_numpy(tokens),
            "attention_mask": torch.from_numpy(present.astype(np.int64)),
            "use_cache": False,
            "output_hidden_states": True,
        }
        output: Any = torch.func.functional_call(self._model, self._merged(weights), (), arguments)
        at = (torch.from_numpy(owner), torch.from_numpy(column))
        log_probs = functional.log_softmax(output.logits[at].float() / temperature, dim=-1)
        sampled = torch.from_numpy(rows.steps["action"][targets.elements].astype(np.int64))
        return Scores(
            logp=log_probs.gather(1, sampled[:, None])[:, 0],
            entropy=-(log_probs.exp() * log_probs).sum(-1),
            hidden=output.hidden_states[-1][at],
            place=torch.arange(len(sampled)),
        )

    def release(self) -> None:
        """Nothing is kept."""

    def _merged(self, weights: Leaves | None) -> dict[str, torch.Tensor]:
        base = dict(self._model.named_parameters())
        if weights is None:
            return {}
        if self._lora is None:
            return {name: weights[name].to(parameter.dtype) for name, parameter in base.items()}
        scale, merged = self._lora.alpha / self._lora.rank, {}
        for module in adapter_names(self._model, self._lora):
            change = weights[PREFIX + module + B] @ weights[PREFIX + module + A] * scale
            is_turned = isinstance(self._model.get_submodule(module), Conv1D)
            merged[f"{module}.weight"] = base[f"{module}.weight"] + (change.t() if is_turned else change)
        return merged
