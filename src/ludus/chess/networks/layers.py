"""The layers that chess networks are made of. Each declares how its weights begin.

Squares are rows: a board of features is `[B, 8, 8, C]` in the tower and `[B * 64, C]` in the attention body.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from ludus.policies.layers import dot_general, relu
from ludus.weight_init import Beginning

BATCH_NORM_EPS = 1e-5
"""What lc0 adds to the variance of a batch norm."""
ZEROS, ONES = Beginning("zeros"), Beginning("ones")


def mish(x: jax.Array) -> jax.Array:
    """`x tanh(softplus(x))`, without exp overflow: with n = e^x (e^x + 2), it is x n / (n + 2)."""
    e = jnp.exp(jnp.minimum(x, 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": relu,
    "mish": mish,
    "swish": jax.nn.silu,
    "selu": jax.nn.selu,
    "relu_2": lambda x: relu(x) ** 2,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "none": lambda x: x,
}


def weight(shape: tuple[int, ...], begins: Beginning) -> nnx.Param[jax.Array]:
    """A weight of this shape; the value is drawn by `weight_init`."""
    return nnx.Param(jnp.zeros(shape), begins=begins)


def dense(inputs: int, outputs: int, begins: Beginning, rngs: nnx.Rngs, *, use_bias: bool = True) -> nnx.Linear:
    """A linear layer on `[N, I]`."""
    return nnx.Linear(
        inputs,
        outputs,
        use_bias=use_bias,
        kernel_metadata={"begins": begins},
        bias_metadata={"begins": ZEROS},
        dot_general=dot_general,
        rngs=rngs,
    )


class Convolution(nnx.Module):
    """A square convolution on `[B, 8, 8, I]` with a bias, or with a batch norm of fixed statistics."""

    def __init__(self, inputs: int, outputs: int, size: int, begins: Beginning, *, frozen_norm: bool = False) -> None:
        self.kernel = weight((size, size, inputs, outputs), begins)
        self.frozen_norm = frozen_norm
        if frozen_norm:
            self.gamma, self.beta = weight((outputs,), ONES), weight((outputs,), ZEROS)
            self.mean, self.variance = weight((outputs,), ZEROS), weight((outputs,), ONES)
        else:
            self.bias = weight((outputs,), ZEROS)

    def __call__(self, x: jax.Array) -> jax.Array:
        kernel, bias = self.folded()
        if kernel.shape[0] == 1:
            flat = x.reshape(-1, x.shape[-1])
            return (dot_general(flat, kernel[0, 0], (((1,), (0,)), ((), ()))) + bias).reshape((*x.shape[:-1], -1))
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers) + bias

    def folded(self) -> tuple[jax.Array, jax.Array]:
        """Kernel and bias that do all of it."""
        if not self.frozen_norm:
            return self.kernel[...], self.bias[...]
        mean, variance = lax.stop_gradient((self.mean[...], self.variance[...]))
        scale = self.gamma[...] * lax.rsqrt(variance + BATCH_NORM_EPS)
        return self.kernel[...] * scale, self.beta[...] - mean * scale


class LayerNorm(nnx.Module):
    """Over the last axis."""

    def __init__(self, width: int, eps: float = 1e-3) -> None:
        self.scale, self.bias, self.eps = weight((width,), ONES), weight((width,), ZEROS), eps

    def __call__(self, x: jax.Array) -> jax.Array:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
        return centred * lax.rsqrt(variance + self.eps) * self.scale[...] + self.bias[...]


class FeedForward(nnx.Module):
    """Two layers beside a skip; `alpha` scales the branch (DeepNorm)."""

    def __init__(self, width: int, hidden: int, activation: str, alpha: float, beta: float, rngs: nnx.Rngs) -> None:
        self.first = dense(width, hidden, Beginning("xavier", beta), rngs)
        self.second = dense(hidden, width, Beginning("xavier", beta), rngs)
        self.activation, self.alpha = activation, alpha

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.alpha * self.second(ACTIVATIONS[self.activation](self.first(x)))
