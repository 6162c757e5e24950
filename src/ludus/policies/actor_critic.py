"""Networks whose critic is a network of its own, or that remember: what IPPO, MAPPO and their recurrent variants need.

Everything here takes a chunk of `L` decisions of one seat per row, `[B, L, ...]`; one decision is a chunk of 1.
Invariant: a chunk gives what its decisions give one by one, each with the memory that the one before it left behind.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from ludus.config import MlpConfig
from ludus.policies.layers import ACTIVATIONS, linear


class Gru(nnx.Module):
    """A gated recurrent unit: `h' = (1 - z) n + z h`, with the reset gate on what the memory adds to `n`."""

    def __init__(self, inputs: int, size: int, rngs: nnx.Rngs) -> None:
        self.seen = linear(inputs, 3 * size, 1.0, rngs)
        self.remembered = linear(size, 3 * size, 1.0, rngs)

    def __call__(self, x: jax.Array, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Outputs `[B, L, H]` and the last of them, for inputs `[B, L, F]` and a memory `[B, H]`."""
        rows, length = x.shape[:2]
        seen = self.seen(x.reshape(rows * length, -1)).reshape(rows, length, -1)
        weights: Any = nnx.to_pure_dict(nnx.state(self.remembered))

        def step(memory: jax.Array, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
            memory = _gated(seen, memory @ weights["kernel"] + weights["bias"], memory)
            return memory, memory

        last, outputs = lax.scan(step, memory, jnp.moveaxis(seen, 1, 0))
        return jnp.moveaxis(outputs, 0, 1), last


def _gated(seen: jax.Array, remembered: jax.Array, memory: jax.Array) -> jax.Array:
    (reset, update, new), (reset_m, update_m, new_m) = jnp.split(seen, 3, -1), jnp.split(remembered, 3, -1)
    update = jax.nn.sigmoid(update + update_m)
    new = jnp.tanh(new + jax.nn.sigmoid(reset + reset_m) * new_m)
    return (1.0 - update) * new + update * memory


class Tower(nnx.Module):
    """Fully connected layers and, where the config has a memory, a recurrent unit on top."""

    def __init__(self, config: MlpConfig, inputs: int, rngs: nnx.Rngs) -> None:
        widths = (inputs, *config.hidden)
        self.torso = nnx.List([linear(i, o, sqrt(2), rngs) for i, o in pairwise(widths)])
        self.activation = config.activation
        self.features = widths[-1]
        self.remembers = config.memory is not None
        if config.memory is not None:
            self.gru = Gru(widths[-1], config.memory.size, rngs)
            self.features = config.memory.size

    def __call__(self, x: jax.Array, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Features `[B * L, F]` and the memory afterwards, for inputs `[B, L, I]`."""
        rows, length = x.shape[:2]
        x = x.reshape(rows * length, -1)
        for layer in self.torso:
            x = ACTIVATIONS[self.activation](layer(x))
        if self.remembers:
            x, memory = self.gru(x.reshape(rows, length, -1), memory)
        return x.reshape(rows * length, -1), memory


class ActorCritic(nnx.Module):
    """An actor that sees what its seat sees, and a critic: on the same features, or a network of its own.

    A critic with a network of its own sees the same as the actor, followed by the state where that has a size.
    """

    def __init__(
        self, config: MlpConfig, *, inputs: int, state: int, actions: int, shares: bool, rngs: nnx.Rngs
    ) -> None:
        self.actor = Tower(config, inputs, rngs)
        self.policy = linear(self.actor.features, actions, 0.01, rngs)
        self.shares = shares
        if not shares:
            self.critic = Tower(config, inputs + state, rngs)
        self.value = linear(self.actor.features, 1, 1.0, rngs)

    def __call__(
        self, observation: jax.Array, state: jax.Array, memory: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Logits `[B, L, A]`, values `[B, L]` and the memory afterwards, `[B, M]`."""
        rows, length = observation.shape[:2]
        seen = observation.reshape(rows, length, -1)
        own, others = (memory, memory) if self.shares else jnp.split(memory, 2, -1)
        features, own = self.actor(seen, own)
        judged = features
        if not self.shares:
            judged, others = self.critic(jnp.concatenate([seen, state], axis=-1), others)
            own = jnp.concatenate([own, others], axis=-1)
        logits, value = self.policy(features), self.value(judged)
        return logits.reshape(rows, length, -1), value.reshape(rows, length), own
