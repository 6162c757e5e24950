"""Weights over the run, as functions of the share of it that is done: floats for floats, arrays for arrays."""

from __future__ import annotations

import math

from ludus.config import MuConfig
from ludus.train.arrays import Array, clamp, namespace


def linear(start: float, end: float, progress: Array | float) -> Array | float:
    """From `start` to `end` over the run."""
    return start if start == end else start + (end - start) * progress


def mu_at(config: MuConfig, progress: Array | float) -> Array | float:
    """CHORD's mu: up to `peak` in a line, down to `valley` along half a cosine, then level."""
    valley = config.peak if config.valley is None else config.valley
    warmup, decay, height = config.warmup_fraction, config.decay_fraction, config.peak - valley
    if isinstance(progress, int | float):
        if progress < warmup:
            return config.peak * progress / warmup
        fallen = min((progress - warmup) / decay, 1.0) if decay else 1.0
        return valley + height * 0.5 * (1.0 + math.cos(math.pi * fallen))
    xp = namespace(progress)
    fallen = clamp((progress - warmup) / decay, 0.0, 1.0) if decay else xp.ones_like(progress)
    after = valley + height * 0.5 * (1.0 + xp.cos(math.pi * fallen))
    return xp.where(progress < warmup, config.peak * progress / warmup, after) if warmup else after
