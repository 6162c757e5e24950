"""Attention `softmax(scale q k^T + mask) v` and its gradient, by whichever way is fastest for the shapes and device.

    table     keeps the table of probabilities: fastest while it is small
    flash     the kernel for CPUs that makes it anew in tiles: any length
    plain     whatever PyTorch has for the device, and autograd through it

q is `[B, H, T, D]`, k and v `[B, K, L, D]` with K dividing H; `mask` is added to the scores, None means causal (T = L).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch.nn import functional

Kind = Literal["table", "flash", "plain"]
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

MOST_IN_TABLE = 1 << 21
"""Numbers in a table that may be kept (8 MB)."""
FLASH_DEVICES = ("cpu",)


@dataclass(frozen=True, slots=True)
class Saved:
    """What the gradient needs of a call."""

    kind: Kind
    tensors: tuple[torch.Tensor, ...]

    SIZES: ClassVar[dict[str, int]] = {"table": 4, "flash": 5, "plain": 3}
    """Tensors of each kind."""


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, Saved]:
    """The result `[B, H, T, D]`, and what its gradient needs."""
    if q.device.type not in FLASH_DEVICES:
        return _plain(q, k, v, mask, scale), Saved("plain", (q, k, v))
    if q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] <= MOST_IN_TABLE and q.dtype == torch.float32:
        return _by_table(q, k, v, mask, scale)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found, logsumexp = kernel(q, k, v, 0.0, mask is None, attn_mask=mask, scale=scale)
    return found, Saved("flash", (q, k, v, found, logsumexp))


def attention_gradient(
    outer: torch.Tensor, saved: Saved, length: int, mask: torch.Tensor | None, scale: float
) -> Gradients:
    """Gradients of q, k and v, in their shapes; `length` is that of q."""
    if saved.kind == "table":
        return _table_gradient(outer, *saved.tensors, scale=scale)
    if saved.kind == "flash":
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        found: Gradients = kernel(outer, *saved.tensors, 0.0, mask is None, attn_mask=mask, scale=scale)
        return found
    with torch.enable_grad():
        q, k, v = (x.detach().requires_grad_() for x in saved.tensors)
        of_q, of_k, of_v = torch.autograd.grad(_plain(q, k, v, mask, scale), (q, k, v), outer)
    return of_q, of_k, of_v


def _by_table(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, Saved]:
    batch, heads, length, size = q.shape
    keys, total = k.shape[1:3]
    share = heads // keys
    q = q.reshape(batch * keys, share * length, size)
    k, v = (x.reshape(batch * keys, total, size) for x in (k, v))
    scores = torch.baddbmm(_table_mask(mask, q, batch, share, length, total), q, k.transpose(1, 2), alpha=scale)
    table = torch.softmax(scores, dim=-1)
    return torch.bmm(table, v).view(batch, heads, length, size), Saved("table", (q, k, v, table))


def _table_mask(
    mask: torch.Tensor | None, q: torch.Tensor, batch: int, share: int, length: int, total: int
) -> torch.Tensor:
    """The mask for queries of several heads below each other: `[share T, L]` or `[B K, share T, L]`."""
    if mask is None:
        mask = q.new_full((length, total), float("-inf")).triu_(1)
    if mask.ndim == 2:
        return mask.repeat(share, 1)
    keys = len(q) // batch
    return mask.expand(batch, keys * share, length, total).reshape(batch * keys, share * length, total)


def _table_gradient(
    outer: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, *, scale: float
) -> Gradients:
    batch, heads, length, size = outer.shape
    outer = outer.reshape(q.shape)
    of_v = torch.bmm(table.transpose(1, 2), outer)
    of_table = torch.bmm(outer, v.transpose(1, 2))
    of_scores = torch.ops.aten._softmax_backward_data(of_table, table, -1, table.dtype).mul_(scale)
    of_q, of_k = torch.bmm(of_scores, k), torch.bmm(of_scores.transpose(1, 2), q)
    shape = (batch, len(k) // batch, k.shape[1], size)
    return of_q.view(batch, heads, length, size), of_k.view(shape), of_v.view(shape)


def _plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scale: float) -> torch.Tensor:
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
