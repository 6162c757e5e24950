"""Losses of a policy by what its actions were worth.

Every loss is elementwise. With r the ratio of new to old probability, A the advantage and sg a constant:

    ppo_clip   max(-A r, -A clip(r, 1 - low, 1 + high)); with dual clip at most -A c where A < 0
    reinforce  -A log pi
    cispo      -sg(clip(r, 1 - low, 1 + high)) A log pi
    sapo       -A (4 / tau) sigmoid(tau (r - 1)), the gradient through r
    topr       -sg(1 if A > threshold else min(r, 1)) A log pi
    opmd       -A log pi / (1 + tau)
    sppo       -A log r where 1 / (1 + epsilon) <= r <= 1 + epsilon, else 0

Where the weights have moved since the tokens were sampled, or an engine computed otherwise, `importance` says how the
elements are weighted for it. To add one: its function and entry in `POLICY_LOSSES`, its options in
`ludus.config.sections.train_losses`.
"""

from __future__ import annotations

from functools import wraps
from inspect import signature

from ludus.train.arrays import Array, as_float, clamp, namespace, stop_gradient
from ludus.train.importance import MAX_LOG_RATIO, Correction, Level, importance_weight, row_mean, row_sum
from ludus.train.loss_inputs import Elements, Loss, LossInputs


def ppo_clip(
    inputs: LossInputs,
    /,
    *,
    clip_low: float | None = 0.2,
    clip_high: float | None = 0.2,
    dual_clip: float | None = None,
    level: Level = "token",
) -> Elements:
    """PPO's clipped surrogate; None does not clip on that side, and on neither side it is `-A r`.

    With `dual_clip` c > 1 the loss of an element with A < 0 is at most `-A c`, however large its ratio. At level
    `sequence` the ratio is the geometric mean over the row (GSPO). `clip_fraction` counts elements where the clip
    decides.
    """
    xp, advantage = namespace(inputs.logp, inputs.advantage), inputs.advantage
    log_ratio = inputs.logp - start_of(inputs)
    log_ratio = _bounded(row_mean(log_ratio, inputs.mask) if level == "sequence" else log_ratio)
    ratio = xp.exp(log_ratio)
    free, clipped = -advantage * ratio, -advantage * _clipped(ratio, clip_low, clip_high)
    loss = xp.maximum(free, clipped)
    if dual_clip is not None:
        loss = xp.where(advantage < 0, xp.minimum(loss, -advantage * dual_clip), loss)
    stats = {"clip_fraction": as_float(clipped > free, ratio), "approx_kl": ratio - 1.0 - log_ratio}
    return Elements(loss=loss, stats=stats)


def reinforce(inputs: LossInputs, /) -> Elements:
    """Policy gradient without a ratio."""
    return Elements(loss=-inputs.advantage * inputs.logp)


def cispo(inputs: LossInputs, /, *, clip_low: float | None = None, clip_high: float | None = 0.28) -> Elements:
    """Policy gradient weighted by a bounded ratio: a step that went far is held back, not dropped as by PPO."""
    log_ratio = stop_gradient(_bounded(inputs.logp - start_of(inputs)))
    ratio = namespace(log_ratio).exp(log_ratio)
    weight = _clipped(ratio, clip_low, clip_high)
    stats = {"clip_fraction": as_float(weight != ratio, ratio), "approx_kl": ratio - 1.0 - log_ratio}
    return Elements(loss=-weight * inputs.advantage * inputs.logp, stats=stats)


def sapo(inputs: LossInputs, /, *, tau_positive: float = 1.0, tau_negative: float = 1.05) -> Elements:
    """A soft gate in place of a clip: the gradient falls smoothly as the ratio leaves 1."""
    log_ratio, advantage = _bounded(inputs.logp - start_of(inputs)), inputs.advantage
    xp = namespace(log_ratio, advantage)
    ratio = xp.exp(log_ratio)
    tau = xp.where(advantage > 0, xp.full_like(ratio, tau_positive), xp.full_like(ratio, tau_negative))
    gate = 4.0 / tau / (1.0 + xp.exp(-tau * (ratio - 1.0)))
    return Elements(loss=-advantage * gate, stats={"approx_kl": ratio - 1.0 - log_ratio})


def topr(inputs: LossInputs, /, *, threshold: float = 0.0, level: Level = "sequence") -> Elements:
    """Good answers at full weight, whoever gave them; bad ones only as far as the policy would still give them.

    At level `sequence` the ratio is that of the whole row, as in the paper; Trinity takes that of each token.
    """
    log_ratio, advantage = inputs.logp - inputs.old_logp, inputs.advantage
    xp = namespace(log_ratio, advantage)
    if level == "sequence":
        log_ratio = row_sum(log_ratio, inputs.mask)
    taper = xp.exp(clamp(stop_gradient(log_ratio), -MAX_LOG_RATIO, 0.0))
    weight = xp.where(advantage > threshold, xp.ones_like(taper), taper)
    return Elements(loss=-weight * advantage * inputs.logp, stats={"taper": weight})


def opmd(inputs: LossInputs, /, *, tau: float = 1.0) -> Elements:
    """Online policy mirror descent: no ratio; `tau` is the pull towards the policy of the step before."""
    return Elements(loss=-inputs.advantage * inputs.logp / (1.0 + tau))


def sppo(inputs: LossInputs, /, *, epsilon: float = 0.3) -> Elements:
    """The log-ratio as surrogate, for elements whose ratio is near 1 alone."""
    log_ratio = _bounded(inputs.logp - inputs.old_logp)
    xp = namespace(log_ratio)
    ratio = xp.exp(stop_gradient(log_ratio))
    kept = (ratio >= 1.0 / (1.0 + epsilon)) & (ratio <= 1.0 + epsilon)
    loss = xp.where(kept, -inputs.advantage * log_ratio, xp.zeros_like(log_ratio))
    return Elements(loss=loss, stats={"clip_fraction": as_float(~kept, log_ratio)})


def start_of(inputs: LossInputs) -> Array:
    """What ratios are taken against."""
    return inputs.old_logp if inputs.start_logp is None else inputs.start_logp


def _bounded(log_ratio: Array) -> Array:
    return clamp(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def _clipped(ratio: Array, low: float | None, high: float | None) -> Array:
    """`ratio` within `[1 - low, 1 + high]`."""
    return clamp(ratio, None if low is None else 1.0 - low, None if high is None else 1.0 + high)


def _corrected(loss: Loss) -> Loss:
    """The loss times importance weights, where its option `importance` asks for them; their mean is a statistic."""

    @wraps(loss)
    def corrected(
        inputs: LossInputs,
        /,
        *,
        importance: Correction = "none",
        importance_level: Level = "token",
        importance_low: float | None = None,
        importance_high: float | None = 2.0,
        **options: float | str | None,
    ) -> Elements:
        elements = loss(inputs, **options)
        if importance == "none":
            return elements
        weight = importance_weight(
            start_of(inputs),
            inputs.old_logp,
            inputs.mask,
            correction=importance,
            level=importance_level,
            low=importance_low,
            high=importance_high,
        )
        return Elements(loss=elements.loss * weight, stats={**elements.stats, "importance_weight": weight})

    own, added = signature(loss), signature(corrected, follow_wrapped=False).parameters.values()
    options = [one for one in added if one.kind is one.KEYWORD_ONLY]
    corrected.__dict__["__signature__"] = own.replace(parameters=[*own.parameters.values(), *options])
    return corrected


POLICY_LOSSES: dict[str, Loss] = {
    "ppo_clip": _corrected(ppo_clip),
    "reinforce": _corrected(reinforce),
    "cispo": _corrected(cispo),
    "sapo": _corrected(sapo),
    "topr": topr,
    "opmd": opmd,
    "sppo": sppo,
}
