"""What a learner reports of an update: means over the optimizer steps taken, counts, and figures of the batch.

Invariant: every figure is finite, whatever the batch held, so metrics are always valid JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

Metrics = dict[str, jax.Array]

_TINY = 1e-8


def means(sums: Mapping[str, jax.Array], taken: jax.Array) -> Metrics:
    """Sums over steps as means; 0 when no step was taken."""
    steps = jnp.maximum(taken, 1).astype(jnp.float32)
    return {name: total / steps for name, total in sums.items()}


def as_floats(**counts: jax.Array) -> Metrics:
    """Counts and flags as float32."""
    return {name: count.astype(jnp.float32) for name, count in counts.items()}


def batch_metrics(batch: Mapping[str, jax.Array]) -> Metrics:
    """Means of value and target, and how much of the targets' variance the old values explained (1 is all)."""
    weight, value, target = batch["weight"], batch["value"], batch["target"]
    total = jnp.maximum(jnp.sum(weight), _TINY)

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(weight > 0, x, 0.0) * weight) / total

    def variance(x: jax.Array) -> jax.Array:
        return mean((x - mean(x)) ** 2)

    spread = variance(target)
    explained = jnp.where(spread > _TINY, 1.0 - variance(target - value) / jnp.maximum(spread, _TINY), 0.0)
    figures = {"explained_variance": explained, "value_mean": mean(value), "target_mean": mean(target)}
    return {name: jnp.where(jnp.isfinite(x), x, 0.0) for name, x in figures.items()}
