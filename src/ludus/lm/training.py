"""The operations of training: gradients, over the rows of one prefix tree of token sequences.

Compiled where that is possible (`compiled_training.py`), else in plain PyTorch (`torch_layers.py`); tests
compare both, values and gradients, with transformers.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ludus.lm import compiled_training, torch_layers
from ludus.lm.architectures import Architecture
from ludus.lm.prefix_tree import PrefixTree
from ludus.lm.weights import Layer, Linear


class Training:
    """`Operations` for one prefix tree."""

    def __init__(self, architecture: Architecture, tree: PrefixTree) -> None:
        self._architecture, self._tree = architecture, tree

    def rms_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square norm of `[R, width]`."""
        is_compiled = compiled_training.fits(x, x.shape[-1])
        norm = compiled_training.rms_norm if is_compiled else torch_layers.rms_norm
        return norm(x, weight, self._architecture.epsilon)

    def linear(self, x: Tensor, linear: Linear, residual: Tensor | None = None) -> Tensor:
        """`residual + x @ matrix + bias`, and what the adapters add."""
        if linear.adapter is None:
            return torch_layers.linear(x, linear.matrix, linear.bias, residual)
        low = linear.adapter
        y: Tensor = _AdaptedLinear.apply(  # type: ignore[no-untyped-call]
            x, linear.matrix, linear.bias, residual, low.down, low.places, low.scale, *low.ups
        )
        return y

    def attention(self, qkv: Tensor, layer: Layer) -> Tensor:
        """Attention of each row to the tokens before it in its sequence, `[R, heads * head_width]`."""
        if compiled_training.fits(qkv, self._architecture.head_width):
            return compiled_training.attend(qkv, layer, self._compiled_plan, self._architecture)
        return self._torch_attention(qkv, layer)

    def swiglu(self, gate_up: Tensor) -> Tensor:
        """`silu(gate) * up` of `[R, 2 hidden]`."""
        is_compiled = compiled_training.fits(gate_up, gate_up.shape[-1])
        return (compiled_training.swiglu if is_compiled else torch_layers.swiglu)(gate_up)

    @cached_property
    def _compiled_plan(self) -> compiled_training.AttentionPlan:
        return compiled_training.AttentionPlan.of(self._tree)

    @cached_property
    def _torch_attention(self) -> torch_layers.PrefixTreeAttention:
        return torch_layers.PrefixTreeAttention(self._architecture, self._tree)


class _AdaptedLinear(Function):
    """The product with its frozen matrix and the adapters beside it: fewer passes over memory than autograd makes."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        residual: Tensor | None,
        down: Tensor,
        places: tuple[int, ...],
        scale: float,
        *ups: Tensor,
    ) -> Tensor:
        y = torch_layers.linear(x, matrix, bias, residual)
        low = x @ down.t()
        for place, up, part in zip(places, ups, low.chunk(len(ups), dim=1), strict=True):
            y[:, place : place + len(up)].addmm_(part, up.t(), alpha=scale)
        ctx.save_for_backward(x, matrix, down, low, *ups)
        ctx.places, ctx.scale, ctx.has_residual = places, scale, residual is not None
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, matrix, down, low, *ups = ctx.saved_tensors
        of_low = torch.empty_like(low)
        of_ups = []
        parts = zip(ctx.places, ups, low.chunk(len(ups), dim=1), of_low.chunk(len(ups), dim=1), strict=True)
        for place, up, part, of_part in parts:
            own = gradient[:, place : place + len(up)]
            of_part.copy_(own @ up)
            of_ups.append((own.t() @ part).mul_(ctx.scale))
        of_low.mul_(ctx.scale)
        of_x = torch.mm(gradient, matrix.t()).addmm_(of_low, down) if ctx.needs_input_grad[0] else None
        of_residual = gradient if ctx.has_residual else None
        return of_x, None, None, of_residual, of_low.t() @ x, None, None, *of_ups
