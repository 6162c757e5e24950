"""The operations of generation in plain PyTorch: any device, any type.

Invariant: the same results, to rounding, as `compiled_generation.py`, which is faster on a CPU.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm import torch_layers
from ludus.lm.architectures import Architecture
from ludus.lm.kv_cache import BLOCK, KvCache
from ludus.lm.rows import Rows, Run, make_runs
from ludus.lm.sampling import Draws, sample_tokens
from ludus.lm.weights import SITES, Layer, Linear


class TorchGeneration:
    """`Generation` in PyTorch."""

    is_exact = False

    def __init__(self, architecture: Architecture, cache: KvCache) -> None:
        self._architecture = architecture
        self._cache = cache

    def begin(self, rows: Rows) -> None:
        """Work out where rows go and what they see."""
        device = self._architecture.cosines.device
        positions = torch.from_numpy(rows.positions.astype(np.int64)).to(device)
        blocks = rows.tables[rows.sequences, rows.positions // BLOCK]
        self._cosines = self._architecture.cosines[positions].unsqueeze(1)
        self._sines = self._architecture.sines[positions].unsqueeze(1)
        self._blocks, self._places = torch.from_numpy(blocks.astype(np.int64)).to(device), positions % BLOCK
        self._runs = make_runs(rows, device)
        adapters = ((slice(span.start, span.stop), span.weights.adapter) for span in rows.spans)
        self._adapters = [(rows, adapter) for rows, adapter in adapters if adapter is not None]

    def rms_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square norm of `[..., width]`."""
        return torch_layers.rms_norm(x, weight, self._architecture.epsilon)

    def linear(self, x: Tensor, linear: Linear, residual: Tensor | None = None) -> Tensor:
        """`residual + x @ matrix + bias`, with the spans' adapters."""
        out = torch_layers.linear(x, linear.matrix, linear.bias, residual)
        layer, site = divmod(linear.number, len(SITES))
        for rows, adapter in self._adapters:
            if (added := adapter.layers[layer][site]) is None:
                continue
            inner = x[rows] @ added.down
            for up in added.ups:
                columns = slice(up.column, up.column + up.matrix.shape[1])
                out[rows, columns].addmm_(inner[:, up.ranks], up.matrix)
        return out

    def attention(self, qkv: Tensor, layer: Layer) -> Tensor:
        """Store keys and values; what each row takes from the positions it sees, `[M, heads * head_width]`."""
        a = self._architecture
        q, k, v = qkv.view(len(qkv), -1, a.head_width).tensor_split((a.heads, a.heads + a.kv_heads), 1)
        q, k = torch_layers.turn_heads(q, k, layer, self._cosines, self._sines, a.epsilon)
        self._cache.store(layer.number, self._blocks, self._places, k, v)
        q = q * a.head_width**-0.5
        out = torch.empty_like(q)
        for run in self._runs:
            rows = run.rows.view(-1)
            out[rows] = self._attend_run(q[rows], layer.number, run)
        return out.view(len(q), -1)

    def swiglu(self, gate_up: Tensor) -> Tensor:
        """`silu(gate) * up` of `[M, 2 hidden]`."""
        return torch_layers.swiglu(gate_up)

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities. See `sample_tokens`."""
        return sample_tokens(logits, draws)

    def _attend_run(self, q: Tensor, layer: int, run: Run) -> Tensor:
        a = self._architecture
        (sequences, blocks), rows = run.blocks.shape, run.visible.shape[2]
        groups = a.heads // a.kv_heads
        seen = blocks * BLOCK
        keys, values = self._cache.gather(layer, run.blocks, run.last)
        q = q.view(sequences, rows, a.kv_heads, groups, a.head_width).permute(0, 2, 3, 1, 4)
        q = q.reshape(sequences, a.kv_heads, groups * rows, a.head_width)
        scores = (q @ keys.transpose(2, 3)).float()
        scores = scores.view(sequences, a.kv_heads * groups, rows, seen).masked_fill(~run.visible, -torch.inf)
        shares = scores.softmax(-1).to(values.dtype).view(sequences, a.kv_heads, groups * rows, seen)
        out = (shares @ values).view(sequences, a.heads, rows, a.head_width).transpose(1, 2)
        return out.reshape(sequences * rows, a.heads, a.head_width)
