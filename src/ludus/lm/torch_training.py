"""The parts of a decoder layer that autograd does with too many passes over memory, with their gradients by hand.

Each is the plain formula in its docstring; tests compare value and gradient with it. Computation is in the type of the
input, but norms are in float32, as in transformers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ludus.lm import compiled_training


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last axis."""
    if compiled_training.fits(x, x.shape[-1]):
        return compiled_training.rms_norm(x, weight, eps)
    normed: torch.Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return normed


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up` of `[gate, up]` `[R, 2 n]`."""
    if compiled_training.fits(x, x.shape[-1]):
        return compiled_training.swiglu(x)
    gated: torch.Tensor = _SwiGlu.apply(x)  # type: ignore[no-untyped-call]
    return gated


def adapted_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    down: torch.Tensor,
    ups: tuple[torch.Tensor, ...],
    *,
    places: tuple[int, ...],
    scale: float,
) -> torch.Tensor:
    """`residual + W x + b + scale * up_i (down_i x)`, the last added from output `places[i]` on.

    Args:
        x: `[R, in]`.
        weight: `[out, in]`, frozen, as is `bias`.
        residual: `[R, out]`.
        down: `[n * rank, in]`: the n matrices below each other.
        ups: n matrices `[out_i, rank]`.
        places: where the outputs of each begin.
        scale: what adapters count with.
    """
    y: torch.Tensor = _AdaptedLinear.apply(  # type: ignore[no-untyped-call]
        x, weight, bias, residual, down, places, scale, *ups
    )
    return y


def norm_scale(x: torch.Tensor, eps: float) -> torch.Tensor:
    """`1 / sqrt(mean(x^2) + eps)` over the last axis, kept."""
    length: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()


def norm_gradient(gradient: torch.Tensor, normed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Gradient through `normed = x * norm_scale(x)`. `gradient` is used up."""
    along = torch.linalg.vecdot(gradient, normed).unsqueeze_(-1).div_(normed.shape[-1])
    return gradient.addcmul_(normed, along, value=-1.0).mul_(scale)


class _RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        wide = x.float()
        scale = norm_scale(wide, eps)
        normed = wide * scale
        ctx.save_for_backward(normed, scale, weight)
        return (normed.to(x.dtype) * weight) if x.dtype != torch.float32 else normed * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        normed, scale, weight = ctx.saved_tensors
        wide = gradient.float()
        of_weight = (wide * normed).sum(0).to(weight.dtype) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[0]:
            return None, of_weight, None
        return norm_gradient(wide * weight, normed, scale).to(gradient.dtype), of_weight, None


class _SwiGlu(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        slope = torch.sigmoid(gate)
        active = slope * gate
        if x.requires_grad:
            # The derivative of silu, while what it is made of is at hand: s + a - a s.
            slope = torch.addcmul(slope, active, slope, value=-1.0).add_(active)
        ctx.save_for_backward(x, active, slope)
        return active * up

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        x, active, slope = ctx.saved_tensors
        found = torch.empty_like(x)
        of_gate, of_up = found.chunk(2, dim=-1)
        torch.mul(gradient, active, out=of_up)
        torch.mul(slope, x.chunk(2, dim=-1)[1], out=of_gate).mul_(gradient)
        return found


class _AdaptedLinear(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        residual: torch.Tensor | None,
        down: torch.Tensor,
        places: tuple[int, ...],
        scale: float,
        *ups: torch.Tensor,
    ) -> torch.Tensor:
        y = functional.linear(x, weight, bias) if residual is None else torch.addmm(residual, x, weight.t())
        if residual is not None and bias is not None:
            y += bias
        low = x @ down.t()
        for place, up, part in zip(places, ups, low.chunk(len(ups), dim=1), strict=True):
            y[:, place : place + len(up)].addmm_(part, up.t(), alpha=scale)
        ctx.save_for_backward(x, weight, down, low, *ups)
        ctx.places, ctx.scale, ctx.has_residual = places, scale, residual is not None
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        x, weight, down, low, *ups = ctx.saved_tensors
        of_low = torch.empty_like(low)
        of_ups = []
        parts = zip(ctx.places, ups, low.chunk(len(ups), dim=1), of_low.chunk(len(ups), dim=1), strict=True)
        for place, up, part, of_part in parts:
            own = gradient[:, place : place + len(up)]
            of_part.copy_(own @ up)
            of_ups.append((own.t() @ part).mul_(ctx.scale))
        of_low.mul_(ctx.scale)
        of_x = torch.mm(gradient, weight).addmm_(of_low, down) if ctx.needs_input_grad[0] else None
        of_residual = gradient if ctx.has_residual else None
        return of_x, None, None, of_residual, of_low.t() @ x, None, None, *of_ups
