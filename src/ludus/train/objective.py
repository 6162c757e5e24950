"""An objective is a list of terms: weight times loss. Nothing here knows the name of a preset.

Invariant: the loss and every metric are additive over parts of a batch when the normalisers of the whole are given,
which is what makes gradient accumulation exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from ludus.config.learn import TermConfig
from ludus.errors import ConfigError
from ludus.train.aggregation import Aggregation, at_least_something, token_mean
from ludus.train.arrays import Array, namespace
from ludus.train.losses import LOSSES, Loss, LossInputs

_CONSTANTS = ("old_logp", "start_logp", "ref_logp", "advantage", "old_value", "target")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One loss with its options bound, its metric's name, and its weight over the run."""

    name: str
    loss: Loss
    options: dict[str, float | bool | str | None]
    weight: float
    weight_end: float

    def weight_at(self, progress: Array | float) -> Array | float:
        """The weight when this share of the run is done."""
        if self.weight == self.weight_end:
            return self.weight
        return self.weight + (self.weight_end - self.weight) * progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The weighted sum of its terms."""

    terms: tuple[Term, ...]
    aggregation: Aggregation = token_mean

    def __call__(
        self,
        inputs: LossInputs,
        progress: Array | float,
        normaliser: Array | None = None,
        count: Array | None = None,
    ) -> tuple[Array, dict[str, Array]]:
        """The loss, and every term and statistic by name. Statistics are means over elements, however loss is averaged.

        Args:
            inputs: one batch, or one part of it.
            progress: share of the run that is done, 0 to 1.
            normaliser: `self.normaliser(mask)` of the whole batch, when `inputs` is a part of it.
            count: elements of the whole batch. Default: `normaliser`, which is the same for the mean over elements.
        """
        inputs = _without_masked_constants(inputs)
        if normaliser is None:
            normaliser, count = self.normaliser(inputs.mask), element_count(inputs.mask)
        count = normaliser if count is None else count
        loss: Array = 0.0
        metrics: dict[str, Array] = {}
        for term in self.terms:
            elements = term.loss(inputs, **term.options)
            value = self.aggregation.total(elements.loss, inputs.mask) / normaliser
            loss = loss + term.weight_at(progress) * value
            metrics[term.name] = value
            for name, stat in elements.stats.items():
                metrics[name] = token_mean.total(stat, inputs.mask) / count
        return loss, metrics

    def uses(self, option: str, *values: object) -> bool:
        """Whether a term that counts has this option at one of these values."""
        return any(
            term.options.get(option) in values for term in self.terms if term.weight != 0 or term.weight_end != 0
        )

    def normaliser(self, mask: Array) -> Array:
        """What the totals of a batch are divided by; never 0."""
        return at_least_something(self.aggregation.normaliser(mask))


def element_count(mask: Array) -> Array:
    """What statistics are divided by; never 0."""
    return at_least_something(token_mean.normaliser(mask))


def build_objective(terms: Sequence[TermConfig], aggregation: Aggregation = token_mean) -> Objective:
    """Look up every term's loss; all that is unknown is reported at once."""
    unknown = [f"unknown loss {t.loss!r}; known are {', '.join(sorted(LOSSES))}" for t in terms if t.loss not in LOSSES]
    if unknown:
        raise ConfigError(*unknown)
    repeated = {name for name, count in Counter(term.loss for term in terms).items() if count > 1}
    built = tuple(
        Term(
            name=f"{term.loss}_{place}" if term.loss in repeated else term.loss,
            loss=LOSSES[term.loss],
            options=dict(term.options),
            weight=term.weight,
            weight_end=term.weight if term.weight_end is None else term.weight_end,
        )
        for place, term in enumerate(terms)
    )
    return Objective(terms=built, aggregation=aggregation)


def _without_masked_constants(inputs: LossInputs) -> LossInputs:
    """Zero what carries no gradient wherever the mask is 0, so that NaN there cannot reach a gradient as 0 * NaN."""
    xp = namespace(inputs.mask)
    cleaned = {}
    for field in fields(inputs):
        column = getattr(inputs, field.name)
        if field.name in _CONSTANTS and column is not None:
            cleaned[field.name] = xp.where(inputs.mask > 0, column, xp.zeros_like(column))
    return replace(inputs, **cleaned)
