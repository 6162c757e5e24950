"""Optimizers of networks: from a gradient to a direction of descent, on all weights as one vector.

The learning rate is not part of them: it depends on the share of the run that is done, or, for piecewise schedules, on
the steps that were taken. To add one: a kind in `OptimizerConfig` and its transformation in `build_optimizer`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import accumulate

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from ludus.config import OptimizerConfig
from ludus.config.parts import SCHEDULES

_RMS_DECAY = 0.99
Mask = NDArray[np.float32]


def build_optimizer(config: OptimizerConfig, mask: Mask | None = None) -> optax.GradientTransformation:
    """Gradient to direction of descent, not yet scaled by the learning rate.

    `weight_decay` is decoupled for `adamw` and `nadamw` and part of the gradient (L2) for the others, as in torch.
    `mask` has 1 where a weight decays; None: all do.
    """
    decay = [_decay(config.weight_decay, mask)] if config.weight_decay else []
    adam = {"b1": config.beta1, "b2": config.beta2, "eps": config.eps}
    if config.kind == "adamw":
        return optax.chain(optax.scale_by_adam(**adam), *decay)
    if config.kind == "nadamw":
        return optax.chain(optax.scale_by_adam(**adam, nesterov=True), *decay)
    if config.kind == "adam":
        return optax.chain(*decay, optax.scale_by_adam(**adam))
    if config.kind == "rmsprop":
        return optax.chain(*decay, optax.scale_by_rms(decay=_RMS_DECAY, eps=config.eps, eps_in_sqrt=False))
    if config.momentum:
        return optax.chain(*decay, optax.trace(decay=config.momentum, nesterov=config.nesterov))
    return optax.chain(*decay, optax.identity())


def decay_mask(config: OptimizerConfig, shapes: Mapping[str, tuple[int, ...]]) -> Mask | None:
    """1 for every number that decays, in the order of the vector (weights by name); None where all do."""
    if not config.decay_rules or not config.weight_decay:
        return None
    return np.concatenate(
        [np.full(math.prod(shapes[name]), _decays(config, name), np.float32) for name in sorted(shapes)]
    )


def learning_rate(config: OptimizerConfig, progress: jax.Array | float, steps: jax.Array | int = 0) -> jax.Array:
    """The rate when this share of the run is done: it rises from 0 over the warm-up, then follows the schedule.

    `steps`: optimizer steps taken so far, for pieces that are counted in steps.
    """
    progress = jnp.clip(jnp.asarray(progress, jnp.float32), 0.0, 1.0)
    if config.pieces:
        return _piecewise(config, progress, steps)
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


def _piecewise(config: OptimizerConfig, progress: jax.Array, steps: jax.Array | int) -> jax.Array:
    pieces = config.pieces
    by_steps = pieces[0].steps is not None
    now = jnp.asarray(steps, jnp.float32) if by_steps else progress
    lengths = [float(piece.steps or 0) if by_steps else float(piece.share or 0.0) for piece in pieces]
    rate: jax.Array = jnp.float32(pieces[-1].learning_rate)
    ends = list(accumulate(lengths))
    for place in reversed(range(len(pieces))):
        piece = pieces[place]
        following = pieces[min(place + 1, len(pieces) - 1)].learning_rate
        done = jnp.clip((now - (ends[place] - lengths[place])) / lengths[place], 0.0, 1.0)
        share = {"constant": 0.0 * done, "linear": done, "cosine": 0.5 * (1.0 - jnp.cos(math.pi * done))}[piece.shape]
        here = piece.learning_rate + (following - piece.learning_rate) * share
        rate = jnp.where(now < ends[place], here, rate)
    return jnp.asarray(rate, jnp.float32)


def _decay(weight_decay: float, mask: Mask | None) -> optax.GradientTransformation:
    if mask is None:
        return optax.add_decayed_weights(weight_decay)

    def update(gradient: jax.Array, state: optax.OptState, params: jax.Array) -> tuple[jax.Array, optax.OptState]:
        return gradient + weight_decay * jnp.asarray(mask) * params, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _decays(config: OptimizerConfig, name: str) -> bool:
    return next((rule.decays for rule in config.decay_rules if fnmatchcase(name, rule.names)), True)
