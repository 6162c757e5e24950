"""The optimizer (optax) and its learning rate as a function of the run's progress.

The transformation computes a direction; the learner scales it by the rate. So the rate depends on the share of the run
that is done, not on a count of steps, and a resumed or re-batched run keeps its schedule.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import optax

from ludus.config import OptimizerConfig
from ludus.config.parts import SCHEDULES

_RMS_DECAY = 0.99


def build_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """Gradient to direction of descent, not yet scaled by the learning rate.

    `weight_decay` is decoupled for `adamw` and part of the gradient (L2) for the others, as in torch.
    """
    decay = [optax.add_decayed_weights(config.weight_decay)] if config.weight_decay else []
    if config.kind == "adamw":
        return optax.chain(optax.scale_by_adam(eps=config.eps), *decay)
    if config.kind == "adam":
        return optax.chain(*decay, optax.scale_by_adam(eps=config.eps))
    if config.kind == "rmsprop":
        return optax.chain(*decay, optax.scale_by_rms(decay=_RMS_DECAY, eps=config.eps, eps_in_sqrt=False))
    return optax.chain(*decay, optax.identity())


def learning_rate(config: OptimizerConfig, progress: jax.Array | float) -> jax.Array:
    """The rate when this share of the run is done: it rises from 0 over the warm-up, then follows the schedule."""
    progress = jnp.clip(jnp.asarray(progress, jnp.float32), 0.0, 1.0)
    after = jnp.clip((progress - config.warmup_fraction) / (1.0 - config.warmup_fraction), 0.0, 1.0)
    factor: jax.Array = jnp.float32(1.0)
    if config.schedule == "linear":
        factor = 1.0 - (1.0 - config.final_fraction) * after
    elif config.schedule == "cosine":
        factor = config.final_fraction + (1.0 - config.final_fraction) * 0.5 * (1.0 + jnp.cos(math.pi * after))
    elif config.schedule != "constant":
        factor = SCHEDULES.find(config.schedule)(after, final_fraction=config.final_fraction)
    if config.warmup_fraction > 0:
        factor = jnp.where(progress < config.warmup_fraction, progress / config.warmup_fraction, factor)
    return jnp.asarray(config.learning_rate * factor, jnp.float32)
