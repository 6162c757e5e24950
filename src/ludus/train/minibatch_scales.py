"""What every part of a minibatch must know of the whole: by how much to divide, and which terms have any rows.

Invariant: computed from masks and labels alone, so every trainer that shares a minibatch finds the same.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from ludus.records import Experiences
from ludus.train.losses import LossInputs
from ludus.train.objective import Objective, Scales, rows_of
from ludus.train.token_rows import targets_of

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
    names = [field.name for field in fields(LossInputs) if field.name not in per_row.keys() | absent]
    return LossInputs(**dict.fromkeys(names, np.zeros((1, 1), np.float32)), **per_row)
