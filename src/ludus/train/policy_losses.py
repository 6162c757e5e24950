"""The losses of `surrogates.py` as terms: what each takes from `LossInputs`, and its options.

Where the weights have moved since the tokens were sampled, or an engine computed otherwise, `importance` says how the
elements are weighted for it. To add one: its function in `surrogates.py`, an entry in `POLICY_LOSSES` here, its options
in `ludus.config.sections.train_losses`.
"""

from __future__ import annotations

from ludus.train import surrogates
from ludus.train.arrays import Array, namespace
from ludus.train.importance import Correction, Level, importance_weight, row_mean, row_sum
from ludus.train.loss_inputs import Elements, Loss, LossInputs


def _ppo_clip(
    inputs: LossInputs,
    /,
    *,
    clip_low: float | None = 0.2,
    clip_high: float | None = 0.2,
    dual_clip: float | None = None,
    level: Level = "token",
    importance: Correction = "none",
    importance_level: Level = "token",
    importance_low: float | None = None,
    importance_high: float | None = 2.0,
) -> Elements:
    """PPO's loss; at level `sequence` the ratio is the geometric mean over the row (GSPO)."""
    log_ratio = inputs.logp - start_of(inputs)
    if level == "sequence":
        log_ratio = row_mean(log_ratio, inputs.mask)
    zeros = namespace(log_ratio).zeros_like(log_ratio)
    elements = surrogates.ppo_clip(
        log_ratio, zeros, inputs.advantage, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
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
    elements = surrogates.reinforce(inputs.logp, inputs.advantage)
    return _corrected(elements, inputs, importance, importance_level, importance_low, importance_high)


def _cispo(
    inputs: LossInputs,
    /,
    *,
    clip_low: float | None = None,
    clip_high: float | None = 0.28,
    importance: Correction = "none",
    importance_level: Level = "token",
    importance_low: float | None = None,
    importance_high: float | None = 2.0,
) -> Elements:
    start = start_of(inputs)
    elements = surrogates.cispo(inputs.logp, start, inputs.advantage, clip_low=clip_low, clip_high=clip_high)
    return _corrected(elements, inputs, importance, importance_level, importance_low, importance_high)


def _sapo(
    inputs: LossInputs,
    /,
    *,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
    importance: Correction = "none",
    importance_level: Level = "token",
    importance_low: float | None = None,
    importance_high: float | None = 2.0,
) -> Elements:
    start = start_of(inputs)
    elements = surrogates.sapo(
        inputs.logp, start, inputs.advantage, tau_positive=tau_positive, tau_negative=tau_negative
    )
    return _corrected(elements, inputs, importance, importance_level, importance_low, importance_high)


def _topr(inputs: LossInputs, /, *, threshold: float = 0.0, level: Level = "sequence") -> Elements:
    """At level `sequence` the ratio is that of the whole row, as in the paper; Trinity takes that of each token."""
    log_ratio = inputs.logp - inputs.old_logp
    if level == "sequence":
        log_ratio = row_sum(log_ratio, inputs.mask)
    return surrogates.topr(inputs.logp, log_ratio, inputs.advantage, threshold=threshold)


def _opmd(inputs: LossInputs, /, *, tau: float = 1.0) -> Elements:
    return surrogates.opmd(inputs.logp, inputs.advantage, tau=tau)


def _sppo(inputs: LossInputs, /, *, epsilon: float = 0.3) -> Elements:
    return surrogates.sppo(inputs.logp, inputs.old_logp, inputs.advantage, epsilon=epsilon)


def start_of(inputs: LossInputs) -> Array:
    """What ratios are taken against."""
    return inputs.old_logp if inputs.start_logp is None else inputs.start_logp


def _corrected(
    elements: Elements, inputs: LossInputs, correction: Correction, level: Level, low: float | None, high: float | None
) -> Elements:
    """The elements times their importance weights, with the mean weight as a statistic."""
    if correction == "none":
        return elements
    weight = importance_weight(
        start_of(inputs), inputs.old_logp, inputs.mask, correction=correction, level=level, low=low, high=high
    )
    return Elements(loss=elements.loss * weight, stats={**elements.stats, "importance_weight": weight})


POLICY_LOSSES: dict[str, Loss] = {
    "ppo_clip": _ppo_clip,
    "reinforce": _reinforce,
    "cispo": _cispo,
    "sapo": _sapo,
    "topr": _topr,
    "opmd": _opmd,
    "sppo": _sppo,
}
