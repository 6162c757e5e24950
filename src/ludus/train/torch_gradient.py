"""The gradient of a minibatch of token sequences in PyTorch, and what an update reports.

Invariants: a minibatch is normalised as a whole, by its masks and labels alone. So its gradient does not depend on how
it is cut into parts or shared by trainers (to rounding), and every trainer finds the same scales. Every metric is
finite, whatever the batch held, so metrics are always valid JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch

from ludus.config import AdvantageConfig, TrainConfig
from ludus.records import Experiences
from ludus.train.health import NOT_FINITE
from ludus.train.importance import MISMATCH_TOTALS, mismatch, mismatch_totals
from ludus.train.loss_inputs import LossInputs
from ludus.train.objective import Objective, Scales, rows_of
from ludus.train.reducer import Reducer
from ludus.train.sources import keep_pairs_whole
from ludus.train.token_rows import Ints, normalised, own_elements, targets_of
from ludus.train.torch_scoring import Scorer
from ludus.train.torch_state import TrainedWeights

Floats = dict[str, float]
Totals = dict[str, torch.Tensor]

_TINY = 1e-8

MICRO_BATCH = {"cpu": 2048, "cuda": 16384}
"""Tokens computed at once by default: a CPU's caches are small, a GPU wants work."""
OWN_METRICS = ("entropy", "approx_kl")
"""What a learner reports of on-policy rows besides the terms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole minibatch, for its parts."""

    scales: Scales
    own: float
    """Elements of on-policy rows."""

    @classmethod
    def of(cls, rows: Experiences, objective: Objective) -> Whole:
        """Reckon a minibatch whose labels are numbers. Offsets begin at 0."""
        mask, source = targets_of(rows).mask, rows.sequences.get("source")
        found = [term.scales(mask, source) for term in objective.terms]
        return cls(
            scales=tuple((float(loss), float(count)) if count > 0 else None for loss, count in found),
            own=float(rows_of("on_policy", mask, source).sum()),
        )


class MetricNames:
    """Which metrics there can be, and which of them a minibatch has nothing to say about."""

    def __init__(self, objective: Objective, *, critic: bool) -> None:
        """Ask every term about nothing."""
        nothing = _nothing(critic)
        self._of_term = [
            frozenset(replace(objective, terms=(term,))(nothing, 0.0, ((1.0, 1.0),))[1].keys())
            for term in objective.terms
        ]
        self.every = tuple(dict.fromkeys([name for names in self._of_term for name in sorted(names)]))
        self.every += tuple(name for name in (*OWN_METRICS, "loss") if name not in self.every)

    def missing(self, whole: Whole) -> frozenset[str]:
        """The metrics that are means of nothing in this minibatch."""
        present = frozenset(
            name for names, scale in zip(self._of_term, whole.scales, strict=True) if scale for name in names
        )
        return frozenset(self.every) - present - {"loss"} - (frozenset(OWN_METRICS) if whole.own else frozenset())


def _nothing(critic: bool) -> LossInputs:
    per_row = {"source": None, "partner": np.zeros(1, np.int64), "chosen": np.zeros(1, bool)}
    absent = set() if critic else {"value"}
    names = [each.name for each in fields(LossInputs) if each.name not in per_row.keys() | absent]
    return LossInputs(**dict.fromkeys(names, np.zeros((1, 1), np.float32)), **per_row)


class TokenGradient:
    """Gradient and metrics by a resolved `TrainConfig`."""

    def __init__(
        self, train: TrainConfig, objective: Objective, scorer: Scorer, reducer: Reducer, *, critic: bool, device: str
    ) -> None:
        self._objective, self._scorer, self._reducer = objective, scorer, reducer
        self._names = MetricNames(objective, critic=critic)
        self._corrects = objective.uses("importance", "truncate", "mask")
        self._normalises = (train.algorithm.advantage or AdvantageConfig()).normalise
        self._most_tokens = train.tokens_per_micro_batch or MICRO_BATCH.get(device, MICRO_BATCH["cuda"])

    def __call__(
        self, leaves: TrainedWeights, part: Experiences, progress: float, *, compares: bool
    ) -> tuple[Floats, Floats]:
        """Leave the minibatch's gradient in the leaves; its metrics, and totals of `mismatch`, if it `compares`."""
        if self._normalises:
            advantage = normalised(part.steps["advantage"], own_elements(part))
            part = part.replace(steps={"advantage": advantage})
        whole = Whole.of(part, self._objective)
        leaves.clear_gradient()
        totals: Totals = {}
        apart: Totals = {}
        for rows in self._scorer.share(self._parts(part)):
            if rows is None:
                self._scorer.idle(leaves, takes_gradient=True)
                continue
            inputs = self._scorer.inputs(part.take(rows), leaves)
            if inputs.start_logp is None and self._corrects:
                inputs = replace(inputs, start_logp=inputs.logp.detach())
            loss, metrics = self._objective.measure(inputs, progress, whole.scales, whole.own or 1.0)
            self._scorer.anchored(loss, inputs).backward()  # type: ignore[no-untyped-call]
            totals = added(totals, {name: value.detach() for name, value in metrics.items()})
            if compares:
                own = rows_of("on_policy", inputs.mask, inputs.source)
                apart = added(apart, mismatch_totals(inputs.logp, inputs.old_logp, own))
        leaves.add_up_gradient(self._reducer)
        differences = self._reducer.add_up_totals(apart, MISMATCH_TOTALS) if compares else {}
        found = self._reducer.add_up_totals(totals, self._names.every)
        missing = self._names.missing(whole)
        return {name: value for name, value in found.items() if name not in missing}, differences

    def tokens_at_once(self, rows: Experiences) -> int:
        """Tokens to compute at once: few enough that every trainer has a part, if that can be."""
        return min(self._most_tokens, -(-rows.step_count // self._reducer.size))

    def _parts(self, part: Experiences) -> list[Ints]:
        """A minibatch in pieces that are computed at once; a pair is never cut."""
        tokens, pair = self.tokens_at_once(part), part.sequences.get("pair")
        if pair is None:
            return self._scorer.parts(part, tokens)
        return keep_pairs_whole(self._scorer.parts(part, max(1, tokens // 2)), pair)


@dataclass(slots=True)
class UpdateTotals:
    """What an update has done so far."""

    sums: Floats = field(default_factory=dict)
    """Of every metric, over the steps that were taken."""
    times: Counter[str] = field(default_factory=Counter)
    """In how many of those steps there was anything that it is a mean of."""
    apart: Floats = field(default_factory=dict)
    """Totals of how far learner and engine are apart, over what was scored before the first step."""
    taken: int = 0
    skipped: int = 0
    stopped: bool = False
    """Whether the KL went over its bound."""
    flagged: list[str] = field(default_factory=list)
    """Metrics that were not finite in the newest step that was skipped."""

    def add(self, metrics: Mapping[str, float]) -> None:
        """Count one optimizer step."""
        self.taken += 1
        self.sums = added(self.sums, metrics)
        self.times.update(metrics.keys())

    def report(
        self, rows: Experiences, figures: Floats, *, skipped_in_a_row: int, learning_rate: float, critic: bool
    ) -> Floats:
        """The metrics of the whole update; `figures` are those of the batch before the first step."""
        means = {name: total / self.times[name] for name, total in self.sums.items()}
        counts = {
            "rows": len(rows),
            "tokens": int(np.count_nonzero(rows.steps["mask"])),
            "optimizer_steps": self.taken,
            "skipped": self.skipped,
            "skipped_in_a_row": skipped_in_a_row,
            "kl_stopped": self.stopped,
            "learning_rate": learning_rate,
        }
        figures = {**means, **figures, **mismatch(self.apart), **_credit_figures(rows, critic), **counts}
        figures |= {f"{NOT_FINITE}{name}": 1.0 for name in self.flagged}
        return {name: float(np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)) for name, x in figures.items()}


def added(totals: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Sums by name; a name that is new begins at its value."""
    return {**totals, **{name: totals[name] + x if name in totals else x for name, x in more.items()}}


def _credit_figures(rows: Experiences, critic: bool) -> Floats:
    """Means over the targets of on-policy rows, and the explained variance of the old values (1 is all)."""
    mask = own_elements(rows)
    if not mask.any():
        return {}
    columns = (rows.steps[name] for name in ("advantage", "value", "target"))
    advantage, value, target = (np.asarray(column, np.float64)[mask] for column in columns)
    if not (np.isfinite(advantage).all() and np.isfinite(value - target).all()):
        return {}
    figures = {"advantage_std": float(advantage.std()), "target_mean": float(target.mean())}
    if not critic:
        return figures
    spread = float(target.var())
    explained = 1.0 - float((target - value).var()) / spread if spread > _TINY else 0.0
    return {**figures, "value_mean": float(value.mean()), "explained_variance": explained}
