"""Losses, once, against the array API standard: the same functions serve NumPy, JAX and torch.

Every loss is elementwise: `[B]` decisions on a board and `[B, T]` tokens alike; `aggregation` turns elements into one
number, so a loss sees a mask only where it compares whole rows. Loss is minimised. To add one: a function of arrays, an
entry in `LOSSES` that picks what it needs from `LossInputs` and has its options as keywords, and the same options in
`ludus.config.loss_options`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ludus.train.arrays import Array, as_float, clamp, namespace
from ludus.train.importance import MAX_LOG_RATIO, Correction, Level, importance_weight, row_mean

Estimator = Literal["k1", "k2", "k3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss may ask for, all of one shape. Only `logp`, `value` and `entropy` carry a gradient."""

    mask: Array
    """Weight of each element; 0 keeps it out of every mean."""
    logp: Array = None
    """Log-probability of what was done, under the policy being trained."""
    old_logp: Array = None
    """The same under the policy that did it, as whoever played reported it."""
    start_logp: Array = None
    """The same under the weights that the update began with, as the learner computes it. Default: `old_logp`."""
    ref_logp: Array = None
    """The same under the model before any training."""
    advantage: Array = None
    value: Array = None
    old_value: Array = None
    target: Array = None
    """What `value` should be."""
    entropy: Array = None
    """Entropy of the policy at each element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """A loss per element, and other things worth averaging the same way."""

    loss: Array
    stats: Mapping[str, Array] = field(default_factory=dict)


Loss = Callable[..., Elements]
"""A function of `LossInputs`, with its options as keywords."""


def ppo_clip(
    logp: Array,
    old_logp: Array,
    advantage: Array,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Elements:
    """PPO's clipped surrogate: `max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high))`.

    With `dual_clip` c > 1 the loss of an element with A < 0 is at most `-A c`, however large its ratio.
    `clip_fraction` counts elements where the clip decides.
    """
    xp = namespace(logp, old_logp, advantage)
    log_ratio = clamp(logp - old_logp, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = xp.exp(log_ratio)
    free, clipped = -advantage * ratio, -advantage * clamp(ratio, 1.0 - clip_low, 1.0 + clip_high)
    loss = xp.maximum(free, clipped)
    if dual_clip is not None:
        loss = xp.where(advantage < 0, xp.minimum(loss, -advantage * dual_clip), loss)
    stats = {"clip_fraction": as_float(clipped > free, logp), "approx_kl": ratio - 1.0 - log_ratio}
    return Elements(loss=loss, stats=stats)


def reinforce(logp: Array, advantage: Array) -> Elements:
    """Policy gradient without a ratio: `-A log pi`."""
    return Elements(loss=-advantage * logp)


def value_loss(value: Array, target: Array, old_value: Array | None = None, *, clip: float | None = None) -> Elements:
    """Half the squared error; with `clip`, the larger of that and the error of a value kept near the old one."""
    xp = namespace(value, target, old_value)
    error = (value - target) ** 2
    if clip is None:
        return Elements(loss=0.5 * error)
    near = old_value + clamp(value - old_value, -clip, clip)
    return Elements(loss=0.5 * xp.maximum(error, (near - target) ** 2))


def entropy(log_probs: Array) -> Array:
    """Entropy over the last axis, `[..., A] -> [...]`. Not a loss; the `entropy` loss is its negative."""
    xp = namespace(log_probs)
    return -xp.sum(xp.exp(log_probs) * log_probs, axis=-1)


def kl(logp: Array, ref_logp: Array, *, estimator: Estimator = "k3", cap: float | None = None) -> Elements:
    """Estimate KL(policy || reference) from elements that the policy sampled.

    With d = logp - ref_logp: k1 = d (unbiased, any sign), k2 = d^2 / 2 (biased, low variance), k3 = exp(-d) - 1 + d
    (unbiased, never negative). `cap` bounds the value of an element (verl uses 10 for k3).
    """
    xp = namespace(logp, ref_logp)
    difference = logp - ref_logp
    if estimator == "k1":
        estimate = difference
    elif estimator == "k2":
        estimate = 0.5 * difference**2
    elif estimator == "k3":
        difference = clamp(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO)
        estimate = xp.exp(-difference) - 1.0 + difference
    else:
        raise ValueError(f"unknown KL estimator {estimator!r}; expected k1, k2 or k3")
    return Elements(loss=estimate if cap is None else clamp(estimate, -cap, cap))


def sft(logp: Array) -> Elements:
    """Imitation: `-log pi` of what was done, whatever it was worth."""
    return Elements(loss=-logp)


def _ppo_clip(
    inputs: LossInputs,
    /,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    level: Level = "token",
    importance: Correction = "none",
    importance_level: Level = "token",
    importance_low: float | None = None,
    importance_high: float | None = 2.0,
) -> Elements:
    """PPO's loss; at level `sequence` the ratio is the geometric mean over the row (GSPO)."""
    log_ratio = inputs.logp - _start(inputs)
    if level == "sequence":
        log_ratio = row_mean(log_ratio, inputs.mask)
    zeros = namespace(log_ratio).zeros_like(log_ratio)
    elements = ppo_clip(log_ratio, zeros, inputs.advantage, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _corrected(elements, inputs, importance, importance_level, importance_low, importance_high)


def _reinforce(
    inputs: LossInputs,
    /,
    *,
    importance: Correction = "none",
    importance_level: Level = "token",
    importance_low: float | None = None,
    importance_high: float | None = 2.0,
) -> Elements:
    elements = reinforce(inputs.logp, inputs.advantage)
    return _corrected(elements, inputs, importance, importance_level, importance_low, importance_high)


def _sft(inputs: LossInputs, /) -> Elements:
    return sft(inputs.logp)


def _value(inputs: LossInputs, /, *, clip: float | None = None) -> Elements:
    return value_loss(inputs.value, inputs.target, inputs.old_value, clip=clip)


def _entropy(inputs: LossInputs, /) -> Elements:
    return Elements(loss=-inputs.entropy)


def _kl(
    inputs: LossInputs,
    /,
    *,
    estimator: Estimator = "k3",
    cap: float | None = None,
    reference: Literal["behaviour", "base"] = "behaviour",
    importance: Literal["none", "ratio"] = "none",
) -> Elements:
    """KL to what played, or to the model before training; times the ratio it is unbiased on stale elements too."""
    other = inputs.ref_logp if reference == "base" else inputs.old_logp
    elements = kl(inputs.logp, other, estimator=estimator, cap=cap)
    if importance == "none":
        return elements
    ratio = namespace(inputs.logp).exp(clamp(inputs.logp - _start(inputs), -MAX_LOG_RATIO, MAX_LOG_RATIO))
    return Elements(loss=elements.loss * ratio)


def _start(inputs: LossInputs) -> Array:
    return inputs.old_logp if inputs.start_logp is None else inputs.start_logp


def _corrected(
    elements: Elements, inputs: LossInputs, correction: Correction, level: Level, low: float | None, high: float | None
) -> Elements:
    """The elements times their importance weights, with the mean weight as a statistic."""
    if correction == "none":
        return elements
    weight = importance_weight(
        _start(inputs), inputs.old_logp, inputs.mask, correction=correction, level=level, low=low, high=high
    )
    return Elements(loss=elements.loss * weight, stats={**elements.stats, "importance_weight": weight})


LOSSES: dict[str, Loss] = {
    "ppo_clip": _ppo_clip,
    "reinforce": _reinforce,
    "sft": _sft,
    "value": _value,
    "entropy": _entropy,
    "kl": _kl,
}
