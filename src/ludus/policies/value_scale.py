"""Value normalisation: a critic that learns returns of mean 0 and variance 1, and says them in the game's own units.

The running mean and mean square of the targets travel with the weights, as `value_scale.*`, so whoever plays with a
version denormalises by the scale that version was trained with. They are not trained. As MAPPO's ValueNorm: each update
counts `1 - MEMORY`, sums are divided by what has been counted so far, and the variance is never below `LEAST_VARIANCE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

PREFIX = "value_scale."
MEAN, SQUARE, COUNTED = (PREFIX + name for name in ("mean", "square", "counted"))
NAMES = (MEAN, SQUARE, COUNTED)
MEMORY = 0.99999
LEAST_VARIANCE = 1e-2


class ValueScale(NamedTuple):
    """What a normalised value is multiplied by, and what is then added."""

    mean: jax.Array
    deviation: jax.Array

    def normalise(self, value: jax.Array) -> jax.Array:
        """From the game's units."""
        return (value - self.mean) / self.deviation

    def denormalise(self, value: jax.Array) -> jax.Array:
        """To the game's units."""
        return value * self.deviation + self.mean


def trained(params: Mapping[str, Any]) -> dict[str, Any]:
    """The weights that the optimizer changes."""
    return {name: weight for name, weight in params.items() if not name.startswith(PREFIX)}


def untrained(params: Mapping[str, Any]) -> dict[str, Any]:
    """The rest: the scale, or nothing."""
    return {name: weight for name, weight in params.items() if name.startswith(PREFIX)}


def scale_of(params: Mapping[str, Any]) -> ValueScale | None:
    """The scale among the weights; None when values are not normalised. Mean 0 and deviation 1 before any update."""
    if COUNTED not in params:
        return None
    counted = jnp.asarray(params[COUNTED])
    share = jnp.where(counted > 0, counted, 1.0)
    mean = params[MEAN] / share
    variance = jnp.maximum(params[SQUARE] / share - mean * mean, LEAST_VARIANCE)
    return ValueScale(mean, jnp.where(counted > 0, jnp.sqrt(variance), 1.0))


def counted_in(params: Mapping[str, Any], target: jax.Array, weight: jax.Array) -> dict[str, jax.Array]:
    """The scale's tensors after one more batch of targets; unchanged when these have no weight or are not finite."""
    known = jnp.where(weight > 0, target, 0.0)
    total = jnp.maximum(jnp.sum(weight), 1e-8)
    fresh = {
        MEAN: jnp.sum(known * weight) / total,
        SQUARE: jnp.sum(known * known * weight) / total,
        COUNTED: jnp.float32(1.0),
    }
    counts = jnp.any(weight > 0) & jnp.isfinite(fresh[SQUARE])
    return {
        name: jnp.where(counts, MEMORY * params[name] + (1.0 - MEMORY) * fresh[name], params[name]) for name in NAMES
    }
