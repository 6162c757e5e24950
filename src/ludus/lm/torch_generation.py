"""What a decoder does between its matrix products, in plain PyTorch: any device, any type.

Invariant: the same face and the same results, to rounding, as `compiled_operations.py`, which is faster on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.adapter_weights import Adapter
from ludus.lm.architectures import Architecture
from ludus.lm.kv_cache import BLOCK, KvCache
from ludus.lm.rows import Rows
from ludus.lm.runs import Run, make_runs
from ludus.lm.sampling import Draws, sample_tokens
from ludus.lm.weights import LayerWeights


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all layers of one forward pass share."""

    cosines: Tensor
    sines: Tensor
    """`[M, 1, head_width / 2]`."""
    blocks: Tensor
    places: Tensor
    """`[M]`: where each row's key and value go."""
    runs: tuple[Run, ...]
    adapters: tuple[tuple[slice, Adapter], ...]


class TorchGeneration:
    """Products, norms, positions, attention, gates, adapters and draws."""

    is_exact = False
    """Whether a row's bits are the same in any company."""

    def __init__(self, architecture: Architecture, cache: KvCache) -> None:
        self._architecture = architecture
        self._cache = cache

    def plan(self, rows: Rows) -> Plan:
        """Work out where rows go and what they see."""
        device = self._architecture.cosines.device
        positions = torch.from_numpy(rows.positions.astype(np.int64)).to(device)
        blocks = rows.tables[rows.sequences, rows.positions // BLOCK]
        return Plan(
            cosines=self._architecture.cosines[positions].unsqueeze(1),
            sines=self._architecture.sines[positions].unsqueeze(1),
            blocks=torch.from_numpy(blocks.astype(np.int64)).to(device),
            places=positions % BLOCK,
            runs=make_runs(rows, device),
            adapters=tuple(
                (slice(span.start, span.stop), span.weights.adapter)
                for span in rows.spans
                if span.weights.adapter is not None
            ),
        )

    def product(self, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        """`x @ matrix + bias`."""
        return torch.mm(x, matrix) if bias is None else torch.addmm(bias, x, matrix)

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square norm of `[..., width]`."""
        return F.rms_norm(x, (x.shape[-1],), weight, self._architecture.epsilon)

    def place(self, qkv: Tensor, layer: int, weights: LayerWeights, plan: Plan) -> Tensor:
        """Store keys and values of `[M, (heads + 2 kv_heads) * head_width]`; returns the queries, ready to attend."""
        a = self._architecture
        parts = qkv.view(len(qkv), a.heads + 2 * a.kv_heads, a.head_width)
        q, k, v = parts.tensor_split((a.heads, a.heads + a.kv_heads), 1)
        if weights.q_norm is not None and weights.k_norm is not None:
            q, k = self.norm(q, weights.q_norm), self.norm(k, weights.k_norm)
        self._cache.store(layer, plan.blocks, plan.places, _rotate(k, plan), v)
        queries = _rotate(q, plan)
        return queries.mul_(a.head_width**-0.5)

    def attend(self, q: Tensor, layer: int, plan: Plan) -> Tensor:
        """What each row takes from the positions it sees, `[M, heads * head_width]`."""
        out = torch.empty_like(q)
        for run in plan.runs:
            rows = run.rows.view(-1)
            out[rows] = self._attend_run(q[rows], layer, run)
        return out.view(len(q), -1)

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

    def gate(self, gate_up: Tensor) -> Tensor:
        """SwiGLU of `[M, 2 hidden]`."""
        gate, up = gate_up.chunk(2, -1)
        return F.silu(gate) * up

    def change(self, out: Tensor, x: Tensor, layer: int, site: int, plan: Plan) -> None:
        """Add the spans' adapters to the product `out` `[M, out]` of `x` `[M, in]`."""
        for rows, adapter in plan.adapters:
            added = adapter.layers[layer][site]
            inner = x[rows] @ added.down if added is not None else x
            for up in added.ups if added is not None else ():
                columns = slice(up.column, up.column + up.matrix.shape[1])
                out[rows, columns].addmm_(inner[:, up.ranks], up.matrix)

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities. See `sample_tokens`."""
        return sample_tokens(logits, draws)


def _rotate(x: Tensor, plan: Plan) -> Tensor:
    first, second = x.chunk(2, -1)
    cosines, sines = plan.cosines.to(x.dtype), plan.sines.to(x.dtype)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)
