"""The parts of a decoder layer, compiled from `layer_kernels.c`: float32 on one thread of a CPU.

Invariant: the same face and, to rounding, the same results and gradients as in `torch_training.py` and
`torch_attention.py`, which serve every other type, device and number of threads, and machines without a C compiler.
"""

from __future__ import annotations

import ctypes
import logging
from ctypes import c_float, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ludus.lm.prefix_tree import Forest
from ludus.runtime.native import CannotCompile, load_library

log = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("layer_kernels.c")
_LANES = 8


class PlanStruct(ctypes.Structure):
    """`Plan` of layer_kernels.c."""

    _fields_ = [
        *((name, c_int64) for name in ("rows", "heads", "keys", "size", "stretches")),
        ("stretch", c_void_p),
        *((name, c_float) for name in ("scale", "eps")),
        *((name, c_void_p) for name in ("cosines", "sines", "norm")),
    ]


@cache
def kernels() -> ctypes.CDLL | None:
    """The compiled functions; None where they cannot be had."""
    try:
        library = load_library(SOURCE)
    except CannotCompile as reason:
        log.info("training without compiled kernels, at two thirds of the speed: %s", reason)
        return None
    pointer, count = c_void_p, c_int64
    library.layer_norm_forward.argtypes = [pointer] * 4 + [count] * 2 + [c_float]
    library.layer_norm_backward.argtypes = [pointer] * 6 + [count] * 2
    library.layer_gate_forward.argtypes = [pointer] * 2 + [count] * 2
    library.layer_gate_backward.argtypes = [pointer] * 3 + [count] * 2
    library.layer_attention_forward.argtypes = [ctypes.POINTER(PlanStruct)] + [pointer] * 5
    library.layer_attention_backward.argtypes = [ctypes.POINTER(PlanStruct)] + [pointer] * 8
    return library


def fits(x: torch.Tensor, width: int) -> bool:
    """Whether the compiled functions serve this tensor, with rows or heads of this width."""
    is_plain = x.device.type == "cpu" and x.dtype == torch.float32
    return is_plain and not width % _LANES and torch.get_num_threads() == 1 and kernels() is not None


def stretches_of(forest: Forest) -> NDArray[np.int64]:
    """`[F + S, 4]`: first row and rows of each trunk and branch, and those of the trunk before it."""
    trunks, branches, family = forest.trunks, forest.branches, forest.family
    none = np.zeros_like(trunks.lengths)
    alone = np.stack([trunks.starts, trunks.lengths, none, none], axis=1)
    behind = [branches.starts, branches.lengths, trunks.starts[family], trunks.lengths[family]]
    return np.ascontiguousarray(np.concatenate([alone, np.stack(behind, axis=1)]))


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """See `torch_training.rms_norm`."""
    normed: torch.Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return normed


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """See `torch_training.swiglu`."""
    gated: torch.Tensor = _SwiGlu.apply(x)  # type: ignore[no-untyped-call]
    return gated


def attend(qkv: torch.Tensor, norm: torch.Tensor | None, plan: Any, heads: Any) -> torch.Tensor:
    """See `torch_attention.attend`; `norm` `[H + K, D]` is the weights of all head norms."""
    attended: torch.Tensor = _Attend.apply(qkv, norm, plan, heads)  # type: ignore[no-untyped-call]
    return attended


class _RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        y, scale = torch.empty_like(x), x.new_empty(len(x))
        _library().layer_norm_forward(*_pointers(x, weight, y, scale), *x.shape, eps)
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        gradient, of_x = gradient.contiguous(), torch.empty_like(x)
        of_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        _library().layer_norm_backward(*_pointers(gradient, x, weight, scale, of_x, of_weight), *x.shape)
        return of_x, of_weight, None


class _SwiGlu(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, width = len(x), x.shape[1] // 2
        y = x.new_empty(rows, width)
        _library().layer_gate_forward(*_pointers(x, y), rows, width)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        gradient, of_x = gradient.contiguous(), torch.empty_like(x)
        _library().layer_gate_backward(*_pointers(gradient, x, of_x), *gradient.shape)
        return of_x


class _Attend(Function):
    @staticmethod
    def forward(ctx: Any, qkv: torch.Tensor, norm: torch.Tensor | None, plan: Any, heads: Any) -> torch.Tensor:
        qkv, rows, turning = qkv.contiguous(), len(qkv), heads.queries + heads.keys
        norm = None if norm is None else norm.contiguous()
        turned, out = qkv.new_empty(rows, turning * heads.size), qkv.new_empty(rows, heads.queries * heads.size)
        norms, logsums = qkv.new_empty(rows, turning), qkv.new_empty(rows, heads.queries)
        struct = _struct(qkv, norm, plan, heads)
        _check(_library().layer_attention_forward(struct, *_pointers(qkv, turned, norms, logsums, out)))
        ctx.save_for_backward(qkv, norm, turned, norms, logsums, out)
        ctx.plan, ctx.heads = plan, heads
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        qkv, norm, turned, norms, logsums, out = ctx.saved_tensors
        gradient, of_qkv = gradient.contiguous(), torch.empty_like(qkv)
        of_norm = torch.zeros_like(norm) if ctx.needs_input_grad[1] else None
        tensors = (gradient, qkv, turned, norms, logsums, out, of_qkv, of_norm)
        struct = _struct(qkv, norm, ctx.plan, ctx.heads)
        _check(_library().layer_attention_backward(struct, *_pointers(*tensors)))
        return of_qkv, of_norm, None, None


def _library() -> ctypes.CDLL:
    library = kernels()
    if library is None:
        raise CannotCompile("there are no compiled kernels; ask `fits` first")
    return library


def _pointers(*tensors: torch.Tensor | None) -> list[int | None]:
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def _struct(qkv: torch.Tensor, norm: torch.Tensor | None, plan: Any, heads: Any) -> PlanStruct:
    return PlanStruct(
        rows=len(qkv),
        heads=heads.queries,
        keys=heads.keys,
        size=heads.size,
        stretches=len(plan.stretches),
        stretch=plan.stretches.ctypes.data,
        scale=heads.scale,
        eps=heads.eps,
        cosines=plan.plain_cos.data_ptr(),
        sines=plan.plain_sin.data_ptr(),
        norm=None if norm is None else norm.data_ptr(),
    )


def _check(code: int) -> None:
    if code:
        raise MemoryError("no memory for the attention of this micro-batch; lower train.tokens_per_micro_batch")
