"""The parts of a decoder layer in plain PyTorch, as transformers computes them; autograd knows their gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

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
