"""Losses, once, against the array API standard: the same functions serve NumPy, JAX and torch.

Every loss is elementwise: `[B]` decisions on a board and `[B, T]` tokens alike; `aggregation` turns elements into one
number, so a loss never sees a mask. Loss is minimised. To add one: a function of arrays, an entry in `LOSSES` that
picks what it needs from `LossInputs`, and its options in `ludus.config.presets.LOSS_OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ludus.train.arrays import Array, as_float, clamp, namespace

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to this, so that one absurd element cannot overflow a batch."""

Estimator = Literal["k1", "k2", "k3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss may ask for, all of one shape. Only `logp`, `value` and `entropy` carry a gradient."""

    mask: Array
    """Weight of each element; 0 keeps it out of every mean."""
    logp: Array = None
    """Log-probability of what was done, under the policy being trained."""
    old_logp: Array = None
    """The same under the policy that did it."""
    ref_logp: Array = None
    """The same under a reference policy. Default: `old_logp`."""
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


class Loss(Protocol):
    """A function of `LossInputs` with its options as keywords."""

    def __call__(self, inputs: LossInputs, /, **options: Any) -> Elements: ...


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


def _ppo_clip(inputs: LossInputs, /, **options: Any) -> Elements:
    return ppo_clip(inputs.logp, inputs.old_logp, inputs.advantage, **options)


def _reinforce(inputs: LossInputs, /, **options: Any) -> Elements:
    return reinforce(inputs.logp, inputs.advantage, **options)


def _value(inputs: LossInputs, /, **options: Any) -> Elements:
    return value_loss(inputs.value, inputs.target, inputs.old_value, **options)


def _entropy(inputs: LossInputs, /, **options: Any) -> Elements:
    return Elements(loss=-inputs.entropy, **options)


def _kl(inputs: LossInputs, /, **options: Any) -> Elements:
    return kl(inputs.logp, inputs.old_logp if inputs.ref_logp is None else inputs.ref_logp, **options)


LOSSES: dict[str, Loss] = {
    "ppo_clip": _ppo_clip,
    "reinforce": _reinforce,
    "value": _value,
    "entropy": _entropy,
    "kl": _kl,
}
