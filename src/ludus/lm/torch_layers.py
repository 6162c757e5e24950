"""The parts of a decoder layer in plain PyTorch, as transformers computes them: any device, any type, with autograd.

Attention is over a prefix tree: rows of a prefix attend to the prefix up to themselves; rows of a branch to all of
their prefix and to the branch up to themselves. Keys of a prefix are computed once however many branches it has.
Invariant: padding is only within one call, is zero, and gets and gives no gradient.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ludus.lm.architectures import Architecture
from ludus.lm.prefix_tree import PrefixTree, Segments
from ludus.lm.weights import Layer


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last axis, in float32 inside."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight


def swiglu(gate_up: Tensor) -> Tensor:
    """`silu(gate) * up` of `[R, 2 n]`."""
    gate, up = gate_up.chunk(2, -1)
    return functional.silu(gate) * up


def linear(x: Tensor, matrix: Tensor, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    """`residual + x @ matrix + bias`."""
    if residual is None:
        return torch.mm(x, matrix) if bias is None else torch.addmm(bias, x, matrix)
    y = torch.addmm(residual, x, matrix)
    return y if bias is None else y + bias


def turn_heads(q: Tensor, k: Tensor, layer: Layer, cosines: Tensor, sines: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Queries and keys `[R, h, D]` with head norms, where the model has them, and rotary positions `[R, 1, D / 2]`."""
    if layer.q_norm is not None and layer.k_norm is not None:
        q, k = rms_norm(q, layer.q_norm, eps), rms_norm(k, layer.k_norm, eps)
    cosines, sines = cosines.to(q.dtype), sines.to(q.dtype)
    return _rotate(q, cosines, sines), _rotate(k, cosines, sines)


def _rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


class Block:
    """Segments of rows `[R, h, D]` as `[k, h, longest, D]` and back."""

    def __init__(self, segments: Segments, device: torch.device) -> None:
        self.rows = slice(segments.first, segments.first + segments.count)
        self.count, self.length = len(segments.lengths), segments.longest
        filled = np.arange(segments.longest) < segments.lengths[:, None]
        self._places = None if segments.is_even else torch.from_numpy(np.flatnonzero(filled)).to(device)

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


class PrefixTreeAttention:
    """The attention of every layer for one prefix tree."""

    def __init__(self, architecture: Architecture, tree: PrefixTree) -> None:
        self._architecture = architecture
        device = architecture.cosines.device
        positions = torch.from_numpy(tree.positions).to(device)
        self._cosines = architecture.cosines[positions].unsqueeze(1)
        self._sines = architecture.sines[positions].unsqueeze(1)
        self._prefixes, self._branches = Block(tree.prefixes, device), Block(tree.branches, device)
        self._family = torch.from_numpy(tree.family).to(device)
        self._mask = _branch_mask(tree).to(device)

    def __call__(self, qkv: Tensor, layer: Layer) -> Tensor:
        """Attention of rows `[R, (heads + 2 kv_heads) D]` (queries, keys, values), `[R, heads D]`."""
        a, prefixes, branches = self._architecture, self._prefixes, self._branches
        q, k, v = qkv.view(len(qkv), -1, a.head_width).tensor_split((a.heads, a.heads + a.kv_heads), 1)
        q, k = turn_heads(q, k, layer, self._cosines, self._sines, a.epsilon)
        prefix_k, prefix_v = prefixes.spread(k), prefixes.spread(v)
        found = [prefixes.gather(_attend(prefixes.spread(q), prefix_k, prefix_v, None))]
        if branches.length:
            k = torch.cat([prefix_k.index_select(0, self._family), branches.spread(k)], 2)
            v = torch.cat([prefix_v.index_select(0, self._family), branches.spread(v)], 2)
            found.append(branches.gather(_attend(branches.spread(q), k, v, self._mask)))
        return torch.cat(found).flatten(1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """`[B, H, T, D]`; `mask` says what is seen, None means causal."""
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=q.shape[1] != k.shape[1]
    )


def _branch_mask(tree: PrefixTree) -> Tensor:
    """Where a branch's row may look: `[T, P + T]`, or `[S, 1, T, P + T]` with uneven prefixes."""
    prefix, branch = tree.prefixes.longest, tree.branches.longest
    allowed = np.tril(np.ones((branch, prefix + branch), bool), prefix)
    if not tree.prefixes.is_even:
        filled = np.arange(prefix) < tree.prefixes.lengths[tree.family][:, None]
        allowed = np.broadcast_to(allowed, (len(filled), 1, branch, prefix + branch)).copy()
        allowed[..., :prefix] &= filled[:, None, None]
    return torch.from_numpy(allowed)
