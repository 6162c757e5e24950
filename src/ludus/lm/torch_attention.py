"""Attention over a forest of token rows in plain PyTorch: any device, any type; autograd knows its gradient.

Rows of a trunk attend to the trunk up to themselves; rows of a branch to all of their trunk and to the branch up to
themselves. Keys of a trunk are computed once however many branches it has.

Invariant: padding is only within one call, is zero, and gets and gives no gradient.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ludus.lm.architectures import Architecture
from ludus.lm.prefix_tree import Forest, Runs
from ludus.lm.torch_layers import turn_heads
from ludus.lm.weights import Layer


class Block:
    """Stretches of rows `[R, h, D]` as `[k, h, longest, D]` and back."""

    def __init__(self, runs: Runs, device: torch.device) -> None:
        self.rows = slice(runs.first, runs.first + runs.count)
        self.count, self.length = len(runs.lengths), runs.longest
        filled = np.arange(runs.longest) < runs.lengths[:, None]
        self._places = None if runs.is_even else torch.from_numpy(np.flatnonzero(filled)).to(device)

    def spread(self, x: Tensor) -> Tensor:
        """The block's rows of `x`, zeros where there is none."""
        own = x[self.rows]
        if self._places is not None:
            own = own.new_zeros(self.count * self.length, *own.shape[1:]).index_copy(0, self._places, own)
        return own.view(self.count, self.length, *own.shape[1:]).transpose(1, 2)

    def gather(self, padded: Tensor) -> Tensor:
        """The inverse: rows `[count, h, D]`."""
        rows = padded.transpose(1, 2).flatten(0, 1)
        return rows if self._places is None else rows.index_select(0, self._places)


class ForestAttention:
    """The attention of every layer for one forest."""

    def __init__(self, architecture: Architecture, forest: Forest) -> None:
        self._architecture = architecture
        device = architecture.cosines.device
        positions = torch.from_numpy(forest.positions).to(device)
        self._cosines = architecture.cosines[positions].unsqueeze(1)
        self._sines = architecture.sines[positions].unsqueeze(1)
        self._trunks, self._branches = Block(forest.trunks, device), Block(forest.branches, device)
        self._family = torch.from_numpy(forest.family).to(device)
        self._mask = _branch_mask(forest).to(device)

    def __call__(self, qkv: Tensor, layer: Layer) -> Tensor:
        """Attention of rows `[R, (heads + 2 kv_heads) D]` (queries, keys, values), `[R, heads D]`."""
        a, trunks, branches = self._architecture, self._trunks, self._branches
        q, k, v = qkv.view(len(qkv), -1, a.head_width).tensor_split((a.heads, a.heads + a.kv_heads), 1)
        q, k = turn_heads(q, k, layer, self._cosines, self._sines, a.epsilon)
        trunk_k, trunk_v = trunks.spread(k), trunks.spread(v)
        found = [trunks.gather(_attend(trunks.spread(q), trunk_k, trunk_v, None))]
        if branches.length:
            k = torch.cat([trunk_k.index_select(0, self._family), branches.spread(k)], 2)
            v = torch.cat([trunk_v.index_select(0, self._family), branches.spread(v)], 2)
            found.append(branches.gather(_attend(branches.spread(q), k, v, self._mask)))
        return torch.cat(found).flatten(1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """`[B, H, T, D]`; `mask` says what is seen, None means causal."""
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=q.shape[1] != k.shape[1]
    )


def _branch_mask(forest: Forest) -> Tensor:
    """Where a branch's row may look: `[T, P + T]`, or `[S, 1, T, P + T]` with uneven trunks."""
    trunk, branch = forest.trunks.longest, forest.branches.longest
    allowed = np.tril(np.ones((branch, trunk + branch), bool), trunk)
    if not forest.trunks.is_even:
        filled = np.arange(trunk) < forest.trunks.lengths[forest.family][:, None]
        allowed = np.broadcast_to(allowed, (len(filled), 1, branch, trunk + branch)).copy()
        allowed[..., :trunk] &= filled[:, None, None]
    return torch.from_numpy(allowed)
