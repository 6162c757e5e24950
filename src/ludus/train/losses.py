"""Losses, once, against the array API standard: the same functions serve NumPy, JAX and torch.

Every loss is elementwise: `[B]` decisions on a board and `[B, T]` tokens alike; `aggregation` turns elements into one
number, so a loss sees a mask only where it compares whole rows. Loss is minimised. To add one: a function of
`LossInputs` that has its options as keywords, its entry in `LOSSES`, and the same options in
`ludus.config.sections.train_losses`; or, in a plugin, `register_loss`. Those of a policy by what its actions were worth
are in `policy_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ludus.config import Source, parts
from ludus.errors import ConfigError
from ludus.train.aggregation import Aggregation, sequence_mean_token_mean
from ludus.train.arrays import Array, as_float, clamp, namespace, stop_gradient
from ludus.train.importance import MAX_LOG_RATIO, row_sum
from ludus.train.loss_inputs import Elements, Loss, LossInputs
from ludus.train.policy_losses import POLICY_LOSSES, start_of

Estimator = Literal["k1", "k2", "k3"]
Weighting = Literal["none", "is", "phi"]


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


def _sft(inputs: LossInputs, /, *, weighting: Weighting = "none", cutoff: float | None = None) -> Elements:
    """Imitation: `-log p` of what was done, whatever it was worth, times a constant by its probability p.

    `is`: times p, so that what the policy would never say pulls less. `phi`: times `p (1 - p)` (CHORD), so that what it
    says anyway pulls less too. Tokens likelier than `cutoff` do not pull at all.
    """
    logp = inputs.logp
    probability = namespace(logp).exp(stop_gradient(logp))
    if cutoff is not None:
        logp = clamp(logp, None, math.log(cutoff))
    if weighting == "none":
        return Elements(loss=-logp)
    weight = probability if weighting == "is" else probability * (1.0 - probability)
    return Elements(loss=-logp * weight, stats={"sft_weight": weight})


def _dpo(inputs: LossInputs, /, *, beta: float = 0.1, label_smoothing: float = 0.0) -> Elements:
    """Preference: `-log sigmoid(beta [(lp_c - ref_c) - (lp_r - ref_r)])` of each pair, at every element of both rows.

    `lp_c` and `lp_r` are sums over the masks of the chosen and the rejected row. The mean over rows is that over pairs.
    """
    xp = namespace(inputs.logp, inputs.ref_logp, inputs.mask)
    gain = beta * row_sum(inputs.logp - inputs.ref_logp, inputs.mask)
    is_chosen = inputs.chosen > 0
    if gain.ndim > 1:
        is_chosen = xp.broadcast_to(is_chosen[:, None], gain.shape)
    margin = xp.where(is_chosen, gain, -gain)
    margin = margin + xp.take(margin, inputs.partner, axis=0)
    loss = (1.0 - label_smoothing) * _softplus(-margin) + label_smoothing * _softplus(margin)
    stats = {"preference_margin": stop_gradient(margin), "preference_accuracy": as_float(margin > 0, gain)}
    return Elements(loss=loss, stats=stats)


def _softplus(x: Array) -> Array:
    xp = namespace(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def _value(inputs: LossInputs, /, *, clip: float | None = None) -> Elements:
    """Half the squared error; with `clip`, the larger of that and the error of a value kept near the old one."""
    value, old, target = inputs.value, inputs.old_value, inputs.target
    error = (value - target) ** 2
    if clip is None:
        return Elements(loss=0.5 * error)
    near = old + clamp(value - old, -clip, clip)
    return Elements(loss=0.5 * namespace(value).maximum(error, (near - target) ** 2))


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
    ratio = namespace(inputs.logp).exp(clamp(inputs.logp - start_of(inputs), -MAX_LOG_RATIO, MAX_LOG_RATIO))
    return Elements(loss=elements.loss * ratio)


LOSSES: dict[str, Loss] = {
    **POLICY_LOSSES,
    "sft": _sft,
    "dpo": _dpo,
    "value": _value,
    "entropy": _entropy,
    "kl": _kl,
}


def register_loss(name: str, function: Loss, *, sources: Sequence[Source] = ("on_policy",)) -> None:
    """Make a loss known under a name, for `loss:` in an objective.

    Args:
        name: Small letters, digits and _.
        function: Takes `LossInputs`, and its options as keyword-only arguments; gives `Elements`.
        sources: Rows that it can learn from: `on_policy`, `expert`, `pairs`, `any`.
    """
    if not callable(function):
        raise ConfigError(f"loss {name!r}: expected a function of LossInputs, got {type(function).__name__}")
    parts.LOSSES.add(name, parts.OwnLoss(function=function, sources=tuple(sources)))


def find_loss(name: str) -> Loss:
    """The loss of a name. Raises ConfigError where there is none."""
    return LOSSES[name] if name in LOSSES else parts.own_loss(name).function


OWN_AGGREGATION: dict[str, Aggregation] = {"dpo": sequence_mean_token_mean}
"""Losses that are averaged in their own way, whatever `train.aggregation` says; so are their statistics."""
