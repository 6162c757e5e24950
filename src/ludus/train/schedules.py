"""Weights and rates over the run, by the share of it that is done: floats for floats, arrays for arrays."""

from __future__ import annotations

import math
from collections.abc import Callable

from ludus.config import MuConfig
from ludus.config.parts import SCHEDULES
from ludus.errors import ConfigError
from ludus.train.arrays import Array, clamp, namespace

Schedule = Callable[..., Array]
"""From the share of the run that is done after the warm-up, an array of no dimensions, to the share of the learning
rate that is left; `final_fraction` is given by name. Written against the array API standard, as losses are."""


def register_schedule(name: str, function: Schedule) -> None:
    """Make a learning-rate schedule known under a name, for `train.optimizer.schedule`."""
    if not callable(function):
        raise ConfigError(f"schedule {name!r}: expected a function of progress, got {type(function).__name__}")
    SCHEDULES.add(name, function)


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
