"""Any causal language model, by its own forward: slower than our decoder, but it need not know the architecture.

The model is given a cache of its own kind that reads and writes ours, so prompts are shared and reused all the same.

Covered: models whose layers all attend to everything before, with keys and values of one shape. Not covered, and
refused: sliding windows shorter than the context, recurrent layers. The way through our cache is compared with the
model's plain forward when an engine is made.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel

from ludus.config import LoraConfig
from ludus.errors import ConfigError
from ludus.lm.architectures import attention_window
from ludus.lm.kv_cache import BLOCK, KvCache
from ludus.lm.rows import Rows, Run, Span, make_runs
from ludus.lm.sampling import Draws, sample_tokens
from ludus.lm.weights import Tensors, check_version, version_parameters

CLOSE = 1e-3
"""How far the two ways through a model may differ in a logit, in float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnParameters:
    """What a version has in place of the base's parameters."""

    number: int
    parameters: dict[str, Tensor]


class PagedCache(Cache):
    """Looks like a cache of transformers for one `Run`; is ours."""

    def __init__(self, cache: KvCache, run: Run, positions: Tensor) -> None:
        super().__init__(layers=[])
        self._cache = cache
        self._run = run
        self._places = (positions % BLOCK).view(-1)
        self._blocks = run.blocks.gather(1, positions // BLOCK).view(-1)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store `[S, kv_heads, T, head_width]` and give back all that the rows may see."""
        keys, values = (states.transpose(1, 2).flatten(0, 1) for states in (key_states, value_states))
        self._cache.store(layer_idx, self._blocks, self._places, keys, values)
        return self._cache.gather(layer_idx, self._run.blocks, self._run.last)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Unused: positions and masks are given."""
        return 0


class TransformersModel:
    """Computes rows of any version of one model with the model's own forward."""

    is_exact = False
    spare_versions = 4

    def __init__(self, model: PreTrainedModel, *, context: int, lora: LoraConfig | None) -> None:
        """Raises ConfigError if the model cannot be run in this way."""
        _refuse_short_sight(model, context)
        self._model = model
        self._lora = lora
        self._numbers = itertools.count()
        self.cache = _make_cache(model)
        self._base = self.prepare({})
        self._check(min(context, 2 * BLOCK + 3))

    def prepare(self, tensors: Tensors) -> OwnParameters:
        """The version's own parameters, merged with its adapter."""
        parameters: dict[str, Tensor] = {}
        if tensors:
            check_version(tensors, self._model, self._lora)
            base = self._model.state_dict()
            made = version_parameters(self._model, tensors, self._lora)
            parameters = {name: tensor for name, tensor in made.items() if tensor.data_ptr() != base[name].data_ptr()}
        return OwnParameters(number=next(self._numbers), parameters=parameters)

    def group(self, weights: OwnParameters) -> int:
        """Every version is alone."""
        return weights.number

    def forward(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Logits and last hidden states of the rows wanted."""
        (span,) = rows.spans
        tokens = torch.from_numpy(rows.tokens).to(self._model.device)
        positions = torch.from_numpy(rows.positions.astype(np.int64)).to(self._model.device)
        logits = hidden = None
        for run in make_runs(rows, self._model.device):
            out = self._run(span.weights.parameters, run, tokens[run.rows], positions[run.rows])
            if logits is None or hidden is None:
                logits = out.logits.new_empty(len(rows), out.logits.shape[-1])
                hidden = out.hidden_states[-1].new_empty(len(rows), out.hidden_states[-1].shape[-1])
            logits[run.rows] = out.logits
            hidden[run.rows] = out.hidden_states[-1]
        if logits is None or hidden is None:
            raise ValueError("a pass has no rows")
        if rows.wanted is None:
            return logits, hidden
        wanted = torch.from_numpy(rows.wanted).to(self._model.device)
        return logits[wanted], hidden[wanted]

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities."""
        return sample_tokens(logits, draws)

    def _run(self, parameters: dict[str, Tensor], run: Run, tokens: Tensor, positions: Tensor) -> Any:
        mask = torch.zeros(run.visible.shape, dtype=self.cache.keys.dtype, device=tokens.device)
        mask.masked_fill_(~run.visible, torch.finfo(mask.dtype).min)
        arguments = {
            "input_ids": tokens,
            "position_ids": positions,
            "attention_mask": mask,
            "past_key_values": PagedCache(self.cache, run, positions),
            "use_cache": True,
            "output_hidden_states": True,
        }
        return torch.func.functional_call(self._model, parameters, (), arguments)

    def _check(self, length: int) -> None:
        """Compare a short sequence, computed in two parts through our cache, with the model's plain forward."""
        tokens = np.random.default_rng(0).integers(0, self._model.config.vocab_size, length)
        tables = np.arange(1, 1 - (-length // BLOCK), dtype=np.int32)[None]
        found = []
        with torch.inference_mode():
            plain = self._model(torch.from_numpy(tokens)[None].to(self._model.device)).logits[0]
            for start, stop in ((0, length // 2), (length // 2, length)):
                span = Span(weights=self._base, start=0, stop=stop - start, first_wanted=0, last_wanted=stop - start)
                rows = Rows(
                    tokens=tokens[start:stop],
                    positions=np.arange(start, stop, dtype=np.int32),
                    sequences=np.zeros(stop - start, np.int32),
                    tables=tables,
                    wanted=None,
                    spans=(span,),
                )
                found.append(self.forward(rows)[0])
        difference = float((torch.cat(found) - plain).abs().max())
        if not difference < CLOSE * (1 if plain.dtype == torch.float32 else 100):
            raise ConfigError(
                f"{self._model.config.model_type}: the local engine computes this model wrongly "
                f"(a logit differs by {difference:.2g}); use another model, or a vLLM server"
            )


def _make_cache(model: PreTrainedModel) -> KvCache:
    """A cache with the shapes that the model's own has after one token."""
    with torch.inference_mode():
        made = model(
            torch.zeros(1, 1, dtype=torch.long, device=model.device), past_key_values=DynamicCache()
        ).past_key_values
    shapes = {
        (tuple(layer.keys.shape), tuple(layer.values.shape)) if getattr(layer, "keys", None) is not None else None
        for layer in made.layers
    }
    keys_and_values = shapes.pop() if len(shapes) == 1 else None
    if keys_and_values is None or keys_and_values[0] != keys_and_values[1]:
        kind = model.config.model_type
        raise ConfigError(f"{kind}: the local engine needs layers with keys and values of one shape; use a vLLM server")
    _, kv_heads, _, head_width = keys_and_values[0]
    return KvCache(
        layers=len(made.layers),
        kv_heads=kv_heads,
        head_width=head_width,
        dtype=made.layers[0].keys.dtype,
        device=model.device,
    )


def _refuse_short_sight(model: PreTrainedModel, context: int) -> None:
    config = model.config.get_text_config()
    window = attention_window(config)
    if window is not None and window < context:
        raise ConfigError(
            f"{config.model_type}: attention reaches back {window} tokens only; set policy.model.context to {window}"
        )
