"""A network: gated layers (SwiGLU) beside a skip, in plain flax.

ludus run examples/plugins/gated.yaml --plugin examples/plugins/gated.py
"""

from math import prod

import jax
import jax.numpy as jnp
from flax import nnx

from ludus import register_network


class Gated(nnx.Module):
    """One layer: `x + out(silu(gate(x)) * up(x))`."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.gate = nnx.Linear(width, 2 * width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.out = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.norm(x)
        return x + self.out(jax.nn.silu(self.gate(y)) * self.up(y))


class GatedNetwork(nnx.Module):
    """What a seat sees, `[B, *shape]`, to policy logits `[B, A]` and a value `[B]`."""

    def __init__(
        self, shape: tuple[int, ...], actions: int, rngs: nnx.Rngs, *, width: int = 64, layers: int = 2
    ) -> None:
        self.stem = nnx.Linear(prod(shape), width, rngs=rngs)
        self.layers = nnx.List([Gated(width, rngs) for _ in range(layers)])
        small = nnx.initializers.normal(0.01)
        self.policy = nnx.Linear(width, actions, kernel_init=small, rngs=rngs)
        self.value = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = self.stem(jnp.reshape(seen, (seen.shape[0], -1)))
        for layer in self.layers:
            x = layer(x)
        return self.policy(x), self.value(x)[:, 0]


register_network("gated", GatedNetwork)
