"""An objective is a list of terms: weight times loss, on the rows of one source. Nothing here knows a preset's name.

Invariants:

- A term sees the rows of its source alone, and is averaged over them alone: other rows change neither its value nor
  its gradient, however many they are.
- The loss and every metric are additive over parts of a batch when the scales of the whole are given, which is what
  makes gradient accumulation exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ludus.config import LOSS_OPTIONS, MuConfig, Source, TermConfig
from ludus.config.parts import LOSSES
from ludus.errors import ConfigError, TrainError
from ludus.train.aggregation import Aggregation, at_least_something, token_mean
from ludus.train.arrays import Array, as_float, namespace
from ludus.train.loss_inputs import Elements, Loss, LossInputs
from ludus.train.losses import OWN_AGGREGATION, find_loss, kl
from ludus.train.schedules import mu_at
from ludus.train.sources import CODES

_CONSTANTS = ("old_logp", "start_logp", "ref_logp", "advantage", "old_value", "target")

Scales = tuple[tuple[Array, Array] | None, ...]
"""For each term, what the totals of its loss and of its statistics are divided by, never 0; None: none of its rows are
there, and it is passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One loss with its options bound, its metric's name, and its weight over the run."""

    name: str
    kind: str
    """Name of the loss."""
    loss: Loss
    options: dict[str, float | bool | str | None]
    source: Source
    weight: float
    weight_end: float
    share: Literal["mu", "rest"] | None
    aggregation: Aggregation
    averages: Aggregation
    """How its statistics are averaged: over elements, however loss is averaged."""

    def weight_at(self, progress: Array | float, mu: MuConfig | None = None) -> Array | float:
        """The weight when this share of the run is done."""
        change = self.weight_end - self.weight
        weight = self.weight + change * progress if change else self.weight
        if self.share is None or mu is None:
            return weight
        share = mu_at(mu, progress)
        return weight * (share if self.share == "mu" else 1.0 - share)

    @property
    def counts(self) -> bool:
        """Whether it can ever change anything."""
        return self.weight != 0 or self.weight_end != 0

    @property
    def needs_reference(self) -> bool:
        """Whether it compares with the model before training."""
        return self.counts and (self.kind == "dpo" or self.options.get("reference") == "base")

    def scales(self, mask: Array, source: Array | None) -> tuple[Array, Array]:
        """What totals over a batch with this mask are divided by; 0 where none of its rows are there."""
        mine = rows_of(self.source, mask, source)
        return self.aggregation.normaliser(mine), self.averages.normaliser(mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The weighted sum of its terms."""

    terms: tuple[Term, ...]
    mu: MuConfig | None = None

    def __call__(
        self, inputs: LossInputs, progress: Array | float, scales: Scales | None = None
    ) -> tuple[Array, dict[str, Array]]:
        """The loss, and every term and statistic by name; `scales` are of the whole batch, if this is a part of it."""
        scales = self.scales(inputs.mask, inputs.source) if scales is None else scales
        loss: Array = 0.0
        metrics: dict[str, Array] = {}
        seen: dict[str, LossInputs] = {}
        for term, scale in zip(self.terms, scales, strict=True):
            if scale is None:
                continue
            normaliser, count = scale
            if term.source not in seen:
                seen[term.source] = _only(term.source, inputs)
            mine = seen[term.source]
            elements: Elements = term.loss(mine, **term.options)
            if term.kind not in LOSS_OPTIONS:
                _check_elements(term.kind, elements, mine.mask)
            value = term.aggregation.total(elements.loss, mine.mask) / normaliser
            loss = loss + term.weight_at(progress, self.mu) * value
            metrics[term.name] = value
            for name, stat in elements.stats.items():
                metrics[name] = term.averages.total(stat, mine.mask) / count
        return loss, metrics

    def measure(
        self, inputs: LossInputs, progress: Array | float, scales: Scales, own: Array | float
    ) -> tuple[Array, dict[str, Array]]:
        """As a call, with what a learner reports besides: the loss, and means over `own` on-policy elements."""
        loss, metrics = self(inputs, progress, scales)
        mask = rows_of("on_policy", inputs.mask, inputs.source)
        metrics["entropy"] = token_mean.total(inputs.entropy, mask) / own
        if "approx_kl" not in metrics:
            metrics["approx_kl"] = token_mean.total(kl(inputs.old_logp, inputs.logp).loss, mask) / own
        return loss, {**metrics, "loss": loss}

    def scales(self, mask: Array, source: Array | None = None) -> Scales:
        """What the totals of a batch are divided by."""
        return tuple(_divisors(term, mask, source) for term in self.terms)

    def schedule(self, progress: Array | float) -> dict[str, Array]:
        """What moves with the run and is worth a look: mu, where there is one."""
        return {} if self.mu is None else {"mu": mu_at(self.mu, progress)}

    def uses(self, option: str, *values: object) -> bool:
        """Whether a term that counts has this option at one of these values."""
        return any(term.options.get(option) in values for term in self.terms if term.counts)

    @property
    def sources(self) -> frozenset[str]:
        """Where the rows come from that the terms look at."""
        return frozenset(term.source for term in self.terms if term.counts)

    @property
    def needs_reference(self) -> frozenset[str]:
        """The sources whose rows are compared with the model before training."""
        return frozenset(term.source for term in self.terms if term.needs_reference)


def _check_elements(name: str, elements: object, mask: Array) -> None:
    """Raise TrainError unless a loss of the user's own gave what a loss gives."""
    if not isinstance(elements, Elements):
        found = "an array" if hasattr(elements, "shape") else f"a {type(elements).__name__}"
        raise TrainError(f"loss {name} gave {found}, expected Elements(loss=...)")
    shape = tuple(getattr(elements.loss, "shape", ()))
    if shape != tuple(mask.shape):
        raise TrainError(
            f"loss {name} gave the shape {list(shape)}, expected one number for each element, {list(mask.shape)}; "
            f"leave the mean to ludus"
        )


def _divisors(term: Term, mask: Array, source: Array | None) -> tuple[Array, Array] | None:
    if source is None and term.source not in ("on_policy", "any"):
        return None
    normaliser, count = term.scales(mask, source)
    return at_least_something(normaliser), at_least_something(count)


def rows_of(wanted: Source, mask: Array, source: Array | None) -> Array:
    """The mask with the rows of other sources left out. `source` holds a code per row, or None: all are on-policy."""
    if wanted == "any" or (source is None and wanted == "on_policy"):
        return mask
    if source is None:
        return namespace(mask).zeros_like(mask)
    mine = as_float(source == CODES[wanted], mask)
    return mask * (mine if mask.ndim == 1 else mine[:, None])


def build_objective(
    terms: Iterable[TermConfig], aggregation: Aggregation = token_mean, mu: MuConfig | None = None
) -> Objective:
    """Look up every term's loss; all that is unknown is reported at once."""
    terms = tuple(terms)
    _refuse_unknown(terms, mu)
    repeated = {name for name, count in Counter(term.loss for term in terms).items() if count > 1}
    built = tuple(
        Term(
            name=f"{term.loss}_{place}" if term.loss in repeated else term.loss,
            kind=term.loss,
            loss=find_loss(term.loss),
            options=dict(term.options),
            source=term.source,
            weight=term.weight,
            weight_end=term.weight if term.weight_end is None else term.weight_end,
            share=term.share,
            aggregation=OWN_AGGREGATION.get(term.loss, aggregation),
            averages=OWN_AGGREGATION.get(term.loss, token_mean),
        )
        for place, term in enumerate(terms)
    )
    return Objective(terms=built, mu=mu)


def _refuse_unknown(terms: Sequence[TermConfig], mu: MuConfig | None) -> None:
    problems = [f"loss {t.loss!r}: {LOSSES.unknown(t.loss)}" for t in terms if t.loss not in LOSSES]
    problems += [f"the loss {t.loss} has share: {t.share}, but there is no mu" for t in terms if t.share and mu is None]
    if problems:
        raise ConfigError(*problems)


def _only(wanted: Source, inputs: LossInputs) -> LossInputs:
    """The inputs with the mask of one source, and constants 0 wherever that is 0: NaN there cannot reach a gradient."""
    mask = rows_of(wanted, inputs.mask, inputs.source)
    xp = namespace(mask)
    columns = {name: column for name in _CONSTANTS if (column := getattr(inputs, name)) is not None}
    cleaned = {name: xp.where(mask > 0, column, xp.zeros_like(column)) for name, column in columns.items()}
    return replace(inputs, mask=mask, **cleaned)
