"""The parts of a decoder layer with their gradients, compiled from `kernels.c`: float32 on one thread of a CPU.

Invariant: the same results and gradients, to rounding, as `torch_layers.py`, which serves every other type, device and
number of threads, and machines without a C compiler.
"""

from __future__ import annotations

import ctypes
import logging
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ludus.lm.architectures import Architecture
from ludus.lm.kernels import EIGHT, PackedPlan, address, load_kernels
from ludus.lm.prefix_tree import Ints, PrefixTree
from ludus.lm.weights import Layer
from ludus.runtime.native import CannotCompile

log = logging.getLogger(__name__)


@cache
def kernels() -> ctypes.CDLL | None:
    """The compiled functions; None where they cannot be had."""
    try:
        return load_kernels()
    except CannotCompile as reason:
        log.info("training without compiled kernels, at two thirds of the speed: %s", reason)
        return None


def fits(x: Tensor, width: int) -> bool:
    """Whether the compiled functions serve this tensor, with rows or heads of this width."""
    is_plain = x.device.type == "cpu" and x.dtype == torch.float32
    return is_plain and not width % EIGHT and torch.get_num_threads() == 1 and kernels() is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """What the attention of every layer shares for one prefix tree."""

    segments: Ints
    """`[F + S, 4]`: first row and rows of each prefix and branch, and those of the prefix before it."""
    positions: Ints
    """`[R]`."""

    @classmethod
    def of(cls, tree: PrefixTree) -> AttentionPlan:
        """The plan of a prefix tree."""
        prefixes, branches, family = tree.prefixes, tree.branches, tree.family
        none = np.zeros_like(prefixes.lengths)
        alone = np.stack([prefixes.starts, prefixes.lengths, none, none], axis=1)
        behind = [branches.starts, branches.lengths, prefixes.starts[family], prefixes.lengths[family]]
        segments = np.ascontiguousarray(np.concatenate([alone, np.stack(behind, axis=1)]))
        return cls(segments=segments, positions=np.ascontiguousarray(tree.positions))


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `torch_layers.rms_norm`."""
    normed: Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return normed


def swiglu(x: Tensor) -> Tensor:
    """See `torch_layers.swiglu`."""
    gated: Tensor = _SwiGlu.apply(x)  # type: ignore[no-untyped-call]
    return gated


def attend(qkv: Tensor, layer: Layer, plan: AttentionPlan, architecture: Architecture) -> Tensor:
    """See `PrefixTreeAttention`."""
    norm = None
    if layer.q_norm is not None and layer.k_norm is not None:
        heads, keys = architecture.heads, architecture.kv_heads
        norm = torch.cat([layer.q_norm.expand(heads, -1), layer.k_norm.expand(keys, -1)])
    attended: Tensor = _Attend.apply(qkv, norm, plan, architecture)  # type: ignore[no-untyped-call]
    return attended


class _RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        y, scale = torch.empty_like(x), x.new_empty(len(x))
        load_kernels().norm_forward(*map(address, (x, weight, y, scale)), *x.shape, eps)
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        gradient, of_x = gradient.contiguous(), torch.empty_like(x)
        of_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        load_kernels().norm_backward(*map(address, (gradient, x, weight, scale, of_x, of_weight)), *x.shape)
        return of_x, of_weight, None


class _SwiGlu(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        rows, width = len(x), x.shape[1] // 2
        y = x.new_empty(rows, width)
        load_kernels().gate_forward(*map(address, (x, y)), rows, width)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gradient, of_x = gradient.contiguous(), torch.empty_like(x)
        load_kernels().gate_backward(*map(address, (gradient, x, of_x)), *gradient.shape)
        return of_x


class _Attend(Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, norm: Tensor | None, plan: AttentionPlan, a: Architecture) -> Tensor:
        qkv, rows, turning = qkv.contiguous(), len(qkv), a.heads + a.kv_heads
        norm = None if norm is None else norm.contiguous()
        turned, out = qkv.new_empty(rows, turning * a.head_width), qkv.new_empty(rows, a.heads * a.head_width)
        norms, logsums = qkv.new_empty(rows, turning), qkv.new_empty(rows, a.heads)
        struct = _struct(qkv, norm, plan, a)
        _check(load_kernels().packed_attention(struct, *map(address, (qkv, turned, norms, logsums, out))))
        ctx.save_for_backward(qkv, norm, turned, norms, logsums, out)
        ctx.plan, ctx.architecture = plan, a
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        qkv, norm, turned, norms, logsums, out = ctx.saved_tensors
        gradient, of_qkv = gradient.contiguous(), torch.empty_like(qkv)
        of_norm = torch.zeros_like(norm) if ctx.needs_input_grad[1] else None
        tensors = (gradient, qkv, turned, norms, logsums, out, of_qkv, of_norm)
        struct = _struct(qkv, norm, ctx.plan, ctx.architecture)
        _check(load_kernels().packed_attention_backward(struct, *map(address, tensors)))
        return of_qkv, of_norm, None, None


def _struct(qkv: Tensor, norm: Tensor | None, plan: AttentionPlan, a: Architecture) -> PackedPlan:
    return PackedPlan(
        rows=len(qkv),
        heads=a.heads,
        keys=a.kv_heads,
        size=a.head_width,
        segments=len(plan.segments),
        segment=plan.segments.ctypes.data,
        scale=a.head_width**-0.5,
        eps=a.epsilon,
        positions=plan.positions.ctypes.data,
        cosines=a.cosines.data_ptr(),
        sines=a.sines.data_ptr(),
        norm=address(norm),
    )


def _check(code: int) -> None:
    if code:
        raise MemoryError("no memory for the attention of this micro-batch; lower train.tokens_per_micro_batch")
