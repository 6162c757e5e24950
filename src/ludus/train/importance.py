"""Importance weights: for tokens that were sampled by something else than the weights that are trained on them.

An engine computes in its own way (other kernels, other precision, an older version), so the log-probability it reports
is not quite the learner's. The weight `exp(learner - engine)` corrects for that; it is a constant, and multiplies the
policy-gradient loss, never a KL term. Large weights are cut down (`truncate`, TIS) or dropped (`mask`, MIS and IcePop).

Rows are the last axis: `[B, T]`. With `[B]` decisions every element is a row of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ludus.train.aggregation import at_least_something
from ludus.train.arrays import Array, as_float, clamp, namespace, stop_gradient

Correction = Literal["none", "truncate", "mask"]
Level = Literal["token", "sequence"]

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to this, so that one absurd element cannot overflow a batch."""


def row_sum(x: Array, mask: Array) -> Array:
    """Each row's sum over its mask, at every element of the row."""
    xp = namespace(x, mask)
    kept = xp.where(mask > 0, x, xp.zeros_like(x))
    return kept if x.ndim == 1 else xp.broadcast_to(xp.sum(kept, axis=-1, keepdims=True), x.shape)


def row_mean(x: Array, mask: Array) -> Array:
    """Each row's mean over its mask, at every element of the row; 0 where the mask is empty."""
    present = as_float(mask > 0, x)
    return row_sum(x, mask) / at_least_something(row_sum(present, mask))


def importance_weight(
    learner_logp: Array,
    engine_logp: Array,
    mask: Array,
    *,
    correction: Correction,
    level: Level,
    low: float | None,
    high: float | None,
) -> Array:
    """What each element's loss is multiplied by. At level `sequence` the ratio is that of the whole row."""
    xp = namespace(learner_logp, engine_logp, mask)
    log_ratio = stop_gradient(learner_logp - engine_logp)
    if level == "sequence":
        log_ratio = row_sum(log_ratio, mask)
    ratio = xp.exp(clamp(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    if correction == "truncate":
        return clamp(ratio, low, high)
    if correction == "mask":
        kept = (ratio >= (0.0 if low is None else low)) & (ratio <= (float("inf") if high is None else high))
        return xp.where(kept, ratio, xp.zeros_like(ratio))
    return xp.ones_like(ratio)


MISMATCH_TOTALS = ("count", "kl", "weight", "square")


def mismatch_totals(learner_logp: Array, engine_logp: Array, mask: Array) -> dict[str, Array]:
    """Sums over the mask from which `mismatch` follows; those of parts add up."""
    xp = namespace(learner_logp, engine_logp, mask)
    present = as_float(mask > 0, learner_logp)
    difference = xp.where(mask > 0, stop_gradient(learner_logp) - engine_logp, xp.zeros_like(learner_logp))
    log_ratio = clamp(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = xp.exp(log_ratio)
    return {
        "count": xp.sum(present),
        "kl": xp.sum((ratio - 1.0 - log_ratio) * present),
        "weight": xp.sum(ratio * present),
        "square": xp.sum(ratio * ratio * present),
    }


def mismatch(totals: Mapping[str, float]) -> dict[str, float]:
    """How far the learner's log-probabilities of the sampled tokens are from the engine's.

    `mismatch_kl` estimates KL(engine || learner) per token (k3); `effective_sample_size` is the share of the tokens
    that importance weights would leave: 1 when both agree.
    """
    if not totals.get("count"):
        return {}
    count = totals["count"]
    return {
        "mismatch_kl": totals["kl"] / count,
        "effective_sample_size": totals["weight"] ** 2 / (totals["square"] or 1.0) / count,
    }
