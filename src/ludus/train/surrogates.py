"""Losses of a policy by what its actions were worth, as functions of arrays. `policy_losses` makes terms of them.

Every function is elementwise. With r the ratio of new to old probability, A the advantage and sg a constant:

    ppo_clip   max(-A r, -A clip(r, 1 - low, 1 + high)); with dual clip at most -A c where A < 0
    reinforce  -A log pi
    cispo      -sg(clip(r, 1 - low, 1 + high)) A log pi
    sapo       -A (4 / tau) sigmoid(tau (r - 1)), the gradient through r
    topr       -sg(1 if A > threshold else min(r, 1)) A log pi
    opmd       -A log pi / (1 + tau)
    sppo       -A log r where 1 / (1 + epsilon) <= r <= 1 + epsilon, else 0
"""

from __future__ import annotations

from ludus.train.arrays import Array, as_float, clamp, namespace, stop_gradient
from ludus.train.importance import MAX_LOG_RATIO
from ludus.train.loss_inputs import Elements


def ppo_clip(
    logp: Array,
    old_logp: Array,
    advantage: Array,
    *,
    clip_low: float | None = 0.2,
    clip_high: float | None = 0.2,
    dual_clip: float | None = None,
) -> Elements:
    """PPO's clipped surrogate; None does not clip on that side, and on neither side it is `-A r`.

    With `dual_clip` c > 1 the loss of an element with A < 0 is at most `-A c`, however large its ratio.
    `clip_fraction` counts elements where the clip decides.
    """
    xp = namespace(logp, old_logp, advantage)
    log_ratio = _log_ratio(logp, old_logp)
    ratio = xp.exp(log_ratio)
    free, clipped = -advantage * ratio, -advantage * _clipped(ratio, clip_low, clip_high)
    loss = xp.maximum(free, clipped)
    if dual_clip is not None:
        loss = xp.where(advantage < 0, xp.minimum(loss, -advantage * dual_clip), loss)
    stats = {"clip_fraction": as_float(clipped > free, logp), "approx_kl": ratio - 1.0 - log_ratio}
    return Elements(loss=loss, stats=stats)


def reinforce(logp: Array, advantage: Array) -> Elements:
    """Policy gradient without a ratio."""
    return Elements(loss=-advantage * logp)


def cispo(
    logp: Array, old_logp: Array, advantage: Array, *, clip_low: float | None = None, clip_high: float | None = 0.28
) -> Elements:
    """Policy gradient weighted by a bounded ratio: a step that went far is held back, not dropped as by PPO."""
    xp = namespace(logp, old_logp, advantage)
    log_ratio = stop_gradient(_log_ratio(logp, old_logp))
    ratio = xp.exp(log_ratio)
    weight = _clipped(ratio, clip_low, clip_high)
    stats = {"clip_fraction": as_float(weight != ratio, logp), "approx_kl": ratio - 1.0 - log_ratio}
    return Elements(loss=-weight * advantage * logp, stats=stats)


def sapo(
    logp: Array, old_logp: Array, advantage: Array, *, tau_positive: float = 1.0, tau_negative: float = 1.05
) -> Elements:
    """A soft gate in place of a clip: the gradient falls smoothly as the ratio leaves 1."""
    xp = namespace(logp, old_logp, advantage)
    log_ratio = _log_ratio(logp, old_logp)
    ratio = xp.exp(log_ratio)
    tau = xp.where(advantage > 0, xp.full_like(ratio, tau_positive), xp.full_like(ratio, tau_negative))
    gate = 4.0 / tau / (1.0 + xp.exp(-tau * (ratio - 1.0)))
    return Elements(loss=-advantage * gate, stats={"approx_kl": ratio - 1.0 - log_ratio})


def topr(logp: Array, log_ratio: Array, advantage: Array, *, threshold: float = 0.0) -> Elements:
    """Good answers at full weight, whoever gave them; bad ones only as far as the policy would still give them."""
    xp = namespace(logp, log_ratio, advantage)
    taper = xp.exp(clamp(stop_gradient(log_ratio), -MAX_LOG_RATIO, 0.0))
    weight = xp.where(advantage > threshold, xp.ones_like(taper), taper)
    return Elements(loss=-weight * advantage * logp, stats={"taper": weight})


def opmd(logp: Array, advantage: Array, *, tau: float = 1.0) -> Elements:
    """Online policy mirror descent: no ratio; `tau` is the pull towards the policy of the step before."""
    return Elements(loss=-advantage * logp / (1.0 + tau))


def sppo(logp: Array, old_logp: Array, advantage: Array, *, epsilon: float = 0.3) -> Elements:
    """The log-ratio as surrogate, for elements whose ratio is near 1 alone."""
    xp = namespace(logp, old_logp, advantage)
    log_ratio = _log_ratio(logp, old_logp)
    ratio = xp.exp(stop_gradient(log_ratio))
    kept = (ratio >= 1.0 / (1.0 + epsilon)) & (ratio <= 1.0 + epsilon)
    loss = xp.where(kept, -advantage * log_ratio, xp.zeros_like(log_ratio))
    return Elements(loss=loss, stats={"clip_fraction": as_float(~kept, logp)})


def _log_ratio(logp: Array, old_logp: Array) -> Array:
    return clamp(logp - old_logp, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def _clipped(ratio: Array, low: float | None, high: float | None) -> Array:
    """`ratio` within `[1 - low, 1 + high]`."""
    return clamp(ratio, None if low is None else 1.0 - low, None if high is None else 1.0 + high)
