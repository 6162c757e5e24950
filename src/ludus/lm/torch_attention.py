"""Attention over a forest of token rows, with its gradient by hand: head norms, rotary positions, trunks, branches.

Rows of a trunk attend to the trunk up to themselves; rows of a branch to all of their trunk and to the branch up to
themselves. Keys of a trunk are computed once however many branches it has.

Invariant: padding is only within one call of the kernel, is zero, and gets and gives no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ludus.lm import compiled_training
from ludus.lm.attention_kernels import Saved, attention, attention_gradient
from ludus.lm.prefix_tree import Forest, Runs
from ludus.lm.torch_training import norm_gradient, norm_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Shape of one layer's attention."""

    queries: int
    keys: int
    """Each serves as many queries, in order."""
    size: int
    scale: float
    eps: float
    """Of the head norms, where there are any."""


class Block:
    """Stretches of rows `[R, h, D]` as `[k, h, longest, D]` and back."""

    def __init__(self, runs: Runs, device: torch.device) -> None:
        self.rows = slice(runs.first, runs.first + runs.count)
        self.count, self.length = len(runs.lengths), runs.longest
        _, filled = runs.padded()
        self._places = None if runs.is_even else torch.from_numpy(np.flatnonzero(filled)).to(device)

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """The block's rows of `x`, zeros where there is none; a view."""
        own = x[self.rows]
        if self._places is not None:
            padded = own.new_zeros(self.count * self.length, *own.shape[1:])
            own = padded.index_copy_(0, self._places, own)
        return own.view(self.count, self.length, *own.shape[1:]).transpose(1, 2)

    def gather(self, padded: torch.Tensor) -> torch.Tensor:
        """The inverse: rows `[count, h, D]`, a view where nothing is padded."""
        if self._places is None:
            return padded.transpose(1, 2)
        return padded.transpose(1, 2).flatten(0, 1).index_select(0, self._places)

    def put(self, rows: torch.Tensor, padded: torch.Tensor) -> None:
        """Write what `gather` gives into the block's rows of `rows` `[R, h, D]`."""
        own = rows[self.rows]
        if self._places is None:
            own.view(self.count, self.length, *own.shape[1:]).copy_(padded.transpose(1, 2))
        else:
            own.copy_(self.gather(padded))

    def add(self, rows: torch.Tensor, padded: torch.Tensor) -> None:
        """Add it there."""
        own = rows[self.rows]
        if self._places is None:
            own.view(self.count, self.length, *own.shape[1:]).add_(padded.transpose(1, 2))
        else:
            own.add_(self.gather(padded))


class AttentionPlan:
    """What the attention of every layer shares for one forest."""

    def __init__(self, forest: Forest, cos: torch.Tensor, sin: torch.Tensor) -> None:
        """`cos` and `sin` `[R, D]`, as transformers has them: both halves alike."""
        device = cos.device
        half = cos.shape[-1] // 2
        self.plain_cos, self.plain_sin = cos.contiguous(), sin.contiguous()
        self.stretches = compiled_training.stretches_of(forest)
        self.cos = cos[:, None]
        self.sin = torch.cat([-sin[:, :half], sin[:, half:]], dim=-1)[:, None]
        self.unrolled = torch.roll(self.sin, half, dims=-1)
        self.trunks, self.branches = Block(forest.trunks, device), Block(forest.branches, device)
        self.family = torch.from_numpy(forest.family).to(device)
        self.mask = _branch_mask(forest, cos.dtype).to(device)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary positions for heads `[R, h, D]`."""
        return (x * self.cos).addcmul_(torch.roll(x, x.shape[-1] // 2, dims=-1), self.sin)

    def unrotate(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient through `rotate`."""
        rolled = torch.roll(gradient, gradient.shape[-1] // 2, dims=-1)
        return (gradient * self.cos).addcmul_(rolled, self.unrolled)


def attend(
    qkv: torch.Tensor,
    query_norm: torch.Tensor | None,
    key_norm: torch.Tensor | None,
    heads: Heads,
    plan: AttentionPlan,
) -> torch.Tensor:
    """Attention of rows `[R, (H + 2 K) D]` (queries, keys, values), `[R, H D]`.

    `query_norm` and `key_norm` `[D]` are weights of norms over each head, in models that have them.
    """
    norm = None
    if query_norm is not None and key_norm is not None:
        norm = torch.cat([query_norm.expand(heads.queries, -1), key_norm.expand(heads.keys, -1)])
    if compiled_training.fits(qkv, heads.size):
        return compiled_training.attend(qkv, norm, plan, heads)
    attended: torch.Tensor = _Attend.apply(qkv, norm, heads, plan)  # type: ignore[no-untyped-call]
    return attended


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: torch.Tensor, norm: torch.Tensor | None, heads: Heads, plan: AttentionPlan
    ) -> torch.Tensor:
        turning = heads.queries + heads.keys
        every = qkv.view(len(qkv), turning + heads.keys, heads.size)
        turned = every[:, :turning]
        normed = scale = None
        if norm is not None:
            wide = turned.float()
            scale = norm_scale(wide, heads.eps)
            normed = wide * scale
            turned = normed.to(qkv.dtype) * norm
        turned = plan.rotate(turned)
        queries, keys, values = turned[:, : heads.queries], turned[:, heads.queries :], every[:, turning:]
        out = qkv.new_empty(len(qkv), heads.queries, heads.size)
        trunk_keys, trunk_values = plan.trunks.spread(keys), plan.trunks.spread(values)
        found, trunk = attention(plan.trunks.spread(queries), trunk_keys, trunk_values, None, heads.scale)
        plan.trunks.put(out, found)
        branch = None
        if plan.branches.length:
            own = plan.branches.spread(queries)
            k = _with_trunk(trunk_keys, plan.branches.spread(keys), plan.family)
            v = _with_trunk(trunk_values, plan.branches.spread(values), plan.family)
            found, branch = attention(own, k, v, plan.mask, heads.scale)
            plan.branches.put(out, found)
        ctx.save_for_backward(norm, normed, scale, *trunk.tensors, *(branch.tensors if branch else ()))
        ctx.kinds = (trunk.kind, branch.kind if branch else None)
        ctx.heads, ctx.plan = heads, plan
        return out.view(len(qkv), -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        norm, normed, scale, *tensors = ctx.saved_tensors
        heads, plan = ctx.heads, ctx.plan
        turning = heads.queries + heads.keys
        gradient = gradient.reshape(len(gradient), heads.queries, heads.size)
        of_qkv = gradient.new_empty(len(gradient), turning + heads.keys, heads.size)
        parts = of_qkv[:, : heads.queries], of_qkv[:, heads.queries : turning], of_qkv[:, turning:]
        trunk_kind, branch_kind = ctx.kinds
        trunk, branch = _split(tensors, trunk_kind, branch_kind)
        found = attention_gradient(plan.trunks.spread(gradient), trunk, plan.trunks.length, None, heads.scale)
        for part, of in zip(parts, found, strict=True):
            plan.trunks.put(part, of)
        if branch is not None:
            outer = plan.branches.spread(gradient)
            of_q, *of_kv = attention_gradient(outer, branch, plan.branches.length, plan.mask, heads.scale)
            plan.branches.put(parts[0], of_q)
            for part, of in zip(parts[1:], of_kv, strict=True):
                _return_to_trunk(part, of, plan)
        of_turned = plan.unrotate(of_qkv[:, :turning])
        of_norm = None
        if norm is not None:
            of_turned = of_turned.float()
            if ctx.needs_input_grad[1]:
                of_norm = (of_turned * normed).sum(0).to(norm.dtype)
            of_turned = norm_gradient(of_turned.mul_(norm), normed, scale)
        of_qkv[:, :turning] = of_turned
        return of_qkv.view(len(of_qkv), -1), of_norm, None, None


def _split(tensors: list[torch.Tensor], trunk: Any, branch: Any) -> tuple[Saved, Saved | None]:
    half = len(tensors) if branch is None else Saved.SIZES[trunk]
    return Saved(trunk, tuple(tensors[:half])), None if branch is None else Saved(branch, tuple(tensors[half:]))


def _with_trunk(trunks: torch.Tensor, own: torch.Tensor, family: torch.Tensor) -> torch.Tensor:
    """Keys or values of each branch behind those of its trunk, `[S, K, P + T, D]`."""
    length = trunks.shape[2]
    joined = own.new_empty(*own.shape[:2], length + own.shape[2], own.shape[3])
    joined[:, :, :length] = trunks if len(trunks) == len(own) else trunks.index_select(0, family)
    joined[:, :, length:] = own
    return joined


def _return_to_trunk(rows: torch.Tensor, of_joined: torch.Tensor, plan: AttentionPlan) -> None:
    """Bring the gradient of `_with_trunk` to the rows `[R, K, D]` it belongs to; those of trunks have some already."""
    length = plan.trunks.length
    plan.branches.put(rows, of_joined[:, :, length:])
    of_trunks = of_joined.new_zeros(plan.trunks.count, *of_joined.shape[1:2], length, of_joined.shape[3])
    plan.trunks.add(rows, of_trunks.index_add_(0, plan.family, of_joined[:, :, :length]))


def _branch_mask(forest: Forest, dtype: torch.dtype) -> torch.Tensor:
    """0 where a branch's row may look and -inf elsewhere: `[T, P + T]`, or `[S, 1, T, P + T]` with uneven trunks."""
    trunk, branch = forest.trunks.longest, forest.branches.longest
    allowed = np.tril(np.ones((branch, trunk + branch), bool), trunk)
    if not forest.trunks.is_even:
        filled = np.arange(trunk) < forest.trunks.lengths[forest.family][:, None]
        allowed = np.broadcast_to(allowed, (len(filled), 1, branch, trunk + branch)).copy()
        allowed[..., :trunk] &= filled[:, None, None]
    mask = torch.zeros(allowed.shape, dtype=dtype)
    return mask.masked_fill_(torch.from_numpy(~allowed), float("-inf"))
