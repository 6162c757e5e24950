"""Optimizers on one vector, in place: the twins of those in `jax_steps.py`, with the same formulas and schedule.

The state is vectors by name (`mu`, `nu`) and a count; `step` is called with a gradient that is already clipped.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from ludus.config import OptimizerConfig
from ludus.config.parts import SCHEDULES

_BETAS = (0.9, 0.999)
_RMS_DECAY = 0.99

Moments = dict[str, torch.Tensor]

MOMENTS: dict[str, tuple[str, ...]] = {"adam": ("mu", "nu"), "adamw": ("mu", "nu"), "rmsprop": ("nu",), "sgd": ()}
"""What each kind remembers of the gradients."""


def init_moments(config: OptimizerConfig, vector: torch.Tensor) -> Moments:
    """Nothing seen yet."""
    return {name: torch.zeros_like(vector) for name in MOMENTS[config.kind]}


def step(
    config: OptimizerConfig,
    vector: torch.Tensor,
    gradient: torch.Tensor,
    moments: Moments,
    *,
    number: int,
    rate: float,
) -> None:
    """Move the vector downhill. `gradient` is used up; `number` counts the steps, this one included.

    `weight_decay` is decoupled for `adamw` and part of the gradient (L2) for the others, as in torch.
    """
    if config.weight_decay:
        if config.kind == "adamw":
            vector.mul_(1.0 - rate * config.weight_decay)
        else:
            gradient.add_(vector, alpha=config.weight_decay)
    if config.kind in ("adam", "adamw"):
        _adam(config, vector, gradient, moments, number, rate)
    elif config.kind == "rmsprop":
        nu = moments["nu"].mul_(_RMS_DECAY).addcmul_(gradient, gradient, value=1.0 - _RMS_DECAY)
        vector.addcdiv_(gradient, nu.sqrt().add_(config.eps), value=-rate)
    else:
        vector.add_(gradient, alpha=-rate)


def _adam(
    config: OptimizerConfig, vector: torch.Tensor, gradient: torch.Tensor, moments: Moments, number: int, rate: float
) -> None:
    first, second = _BETAS
    moments["mu"].lerp_(gradient, 1.0 - first)
    moments["nu"].mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
    torch.sqrt(moments["nu"], out=gradient)
    gradient.div_(math.sqrt(1.0 - second**number)).add_(config.eps)
    vector.addcdiv_(moments["mu"], gradient, value=-rate / (1.0 - first**number))


def learning_rate(config: OptimizerConfig, progress: float) -> float:
    """The rate when this share of the run is done: it rises from 0 over the warm-up, then follows the schedule."""
    progress = min(max(progress, 0.0), 1.0)
    if progress < config.warmup_fraction:
        return config.learning_rate * progress / config.warmup_fraction
    after = min((progress - config.warmup_fraction) / (1.0 - config.warmup_fraction), 1.0)
    factor = 1.0
    if config.schedule == "linear":
        factor = 1.0 - (1.0 - config.final_fraction) * after
    elif config.schedule == "cosine":
        factor = config.final_fraction + (1.0 - config.final_fraction) * 0.5 * (1.0 + math.cos(math.pi * after))
    elif config.schedule != "constant":
        factor = float(SCHEDULES.find(config.schedule)(np.asarray(after), final_fraction=config.final_fraction))
    return config.learning_rate * factor
