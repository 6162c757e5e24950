"""The layers that the small networks are made of; each declares how its weights begin, as `begins`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from ludus.policies.dense import dot_general, relu
from ludus.weight_init import Beginning

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": relu, "tanh": jnp.tanh, "silu": jax.nn.silu}


def linear(inputs: int, outputs: int, scale: float, rngs: nnx.Rngs) -> nnx.Linear:
    """A linear layer with orthogonal weights of this scale and no bias at first."""
    return nnx.Linear(
        inputs,
        outputs,
        kernel_metadata={"begins": Beginning("orthogonal", scale)},
        bias_metadata={"begins": Beginning("zeros")},
        dot_general=dot_general,
        rngs=rngs,
    )


def convolution(inputs: int, outputs: int, size: int, begins: Beginning, rngs: nnx.Rngs) -> nnx.Conv:
    """A square convolution that keeps height and width."""
    return nnx.Conv(
        inputs,
        outputs,
        (size, size),
        padding="SAME",
        kernel_metadata={"begins": begins},
        bias_metadata={"begins": Beginning("zeros")},
        rngs=rngs,
    )
