"""The lean decoder: a forward pass over rows of many sequences, straight from the weights.

Invariant: with operations that are exact, a row's result is the same bits whichever rows it is computed with: matrix
products treat the rows of a span alike, and everything else treats them one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.adapter_weights import DOWN, GATE_UP, OUT, QKV, Adapter
from ludus.lm.rows import Rows
from ludus.lm.sampling import Draws
from ludus.lm.weights import DecoderWeights, LayerWeights


class Operations(Protocol):
    """What a layer does. `plan` is made once for each forward pass; `change` adds the adapters. What a call returns is
    valid until the next call of the same kind."""

    is_exact: bool
    """Whether a row's bits are the same in any company."""

    def plan(self, rows: Rows) -> Any: ...
    def product(self, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor: ...
    def norm(self, x: Tensor, weight: Tensor) -> Tensor: ...
    def place(self, qkv: Tensor, layer: int, weights: LayerWeights, plan: Any) -> Tensor: ...
    def attend(self, q: Tensor, layer: int, plan: Any) -> Tensor: ...
    def gate(self, gate_up: Tensor) -> Tensor: ...
    def change(self, out: Tensor, x: Tensor, layer: int, site: int, plan: Any) -> None: ...
    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWeights:
    """What one version computes with. Versions with the same base can share a forward pass."""

    base: DecoderWeights
    adapter: Adapter | None = None


class Decoder:
    """Computes rows."""

    def __init__(self, operations: Operations) -> None:
        self._do = operations

    def forward(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Compute rows, whose spans have one base, and store their keys and values.

        Returns:
            Logits `[n, vocabulary]` and last hidden states `[n, width]` of the rows wanted.
        """
        do, plan = self._do, self._do.plan(rows)
        weights: DecoderWeights = rows.spans[0].weights.base
        x = weights.embedding.index_select(0, torch.from_numpy(rows.tokens).to(weights.embedding.device))
        for number, layer in enumerate(weights.layers):
            normed = do.norm(x, layer.attention_norm)
            qkv = do.product(normed, layer.qkv, layer.qkv_bias)
            do.change(qkv, normed, number, QKV, plan)
            seen = do.attend(do.place(qkv, number, layer, plan), number, plan)
            _add_product(x, seen, layer.out, layer.out_bias)
            do.change(x, seen, number, OUT, plan)
            normed = do.norm(x, layer.mlp_norm)
            gate_up = do.product(normed, layer.gate_up, layer.gate_up_bias)
            do.change(gate_up, normed, number, GATE_UP, plan)
            gated = do.gate(gate_up)
            _add_product(x, gated, layer.down, layer.down_bias)
            do.change(x, gated, number, DOWN, plan)
        return self._look_ahead(rows, weights, x)

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities. See `sample_tokens`."""
        return self._do.draw(logits, draws)

    def _look_ahead(self, rows: Rows, weights: DecoderWeights, x: Tensor) -> tuple[Tensor, Tensor]:
        if rows.wanted is not None:
            x = x.index_select(0, torch.from_numpy(rows.wanted).to(x.device))
        hidden = self._do.norm(x, weights.norm)
        return torch.mm(hidden, weights.head), hidden


def _add_product(x: Tensor, y: Tensor, matrix: Tensor, bias: Tensor | None) -> None:
    x.addmm_(y, matrix)
    if bias is not None:
        x.add_(bias)
