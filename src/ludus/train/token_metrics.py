"""What a language-model learner reports of an update: means over the optimizer steps taken, counts, batch figures.

Invariant: every figure is finite, whatever the batch held, so metrics are always valid JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.records import Experiences
from ludus.train.importance import mismatch
from ludus.train.token_rows import own_elements

Floats = dict[str, float]

_TINY = 1e-8


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
        return {name: float(np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)) for name, x in figures.items()}


def added(totals: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Sums by name; a name that is new begins at its value."""
    return {**totals, **{name: totals[name] + x if name in totals else x for name, x in more.items()}}


def _credit_figures(rows: Experiences, critic: bool) -> Floats:
    """Means over the targets of on-policy rows, and the explained variance of the old values (1 is all)."""
    mask = own_elements(rows)
    if not mask.any():
        return {}
    advantage, value, target = (_chosen(rows, name, mask) for name in ("advantage", "value", "target"))
    if not (np.isfinite(advantage).all() and np.isfinite(value - target).all()):
        return {}
    figures = {"advantage_std": float(advantage.std()), "target_mean": float(target.mean())}
    if not critic:
        return figures
    spread = float(target.var())
    explained = 1.0 - float((target - value).var()) / spread if spread > _TINY else 0.0
    return {**figures, "value_mean": float(value.mean()), "explained_variance": explained}


def _chosen(rows: Experiences, name: str, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    column: NDArray[np.float64] = np.asarray(rows.steps[name], np.float64)[mask]
    return column
