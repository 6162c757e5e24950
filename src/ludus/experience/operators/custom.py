"""A user's own function as an operator.

Invariant: the function sees one group at a time, so its verdict cannot depend on the company that a group comes in. An
error that it raises, or an answer that is no verdict, stops the run with its name: it is the run's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ludus.errors import LudusError
from ludus.experience.groups import Groups
from ludus.experience.operators.protocol import Verdict, Why
from ludus.records import Experiences

GroupFunction = Callable[..., Verdict]
"""Takes the rows of one group, and the options as keywords."""


class PerGroup:
    """Applies a function to each group."""

    def __init__(self, name: str, function: GroupFunction, options: dict[str, Any]) -> None:
        self._name = name
        self._function = function
        self._options = options

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Put the verdicts on the groups together."""
        rewards = rows.sequences["shaped_reward"].astype(np.float64)
        refused: dict[int, Why] = {}
        metrics: dict[str, list[float]] = {}
        of_rows = groups.of_rows
        for number, name in enumerate(groups.names):
            places = np.flatnonzero(of_rows == number)
            verdict = self._ask(rows.take(places), name)
            refused |= {int(places[row]): why for row, why in verdict.refused.items()}
            if verdict.rewards is not None:
                rewards[places] = verdict.rewards
            for key, values in verdict.metrics.items():
                metrics.setdefault(key, []).extend(np.atleast_1d(np.asarray(values, np.float64)).tolist())
        return Verdict(refused=refused, rewards=rewards, metrics=metrics)

    def _ask(self, group: Experiences, name: str) -> Verdict:
        try:
            verdict = self._function(group, **self._options)
        except Exception as error:  # a user's code may raise anything
            what = f"operator {self._name} failed on group {name or group.sequences['episode'][0]}"
            raise LudusError(f"{what}: {type(error).__name__}: {error}") from error
        return check_verdict(verdict, len(group), self._name)


def check_verdict(verdict: Any, rows: int, name: str) -> Verdict:
    """Refuse what is no verdict on that many rows."""
    if not isinstance(verdict, Verdict):
        raise LudusError(f"operator {name} gave a {type(verdict).__name__}; expected a Verdict")
    for row, why in verdict.refused.items():
        is_row = isinstance(row, int | np.integer) and 0 <= row < rows
        if not is_row or not isinstance(why, tuple) or len(why) != 2 or not why[0] or not isinstance(why[0], str):
            expected = f"a row from 0 to {rows - 1} with a reason and a detail"
            raise LudusError(f"operator {name} refused {row!r} with {why!r}; expected {expected}")
    if verdict.rewards is not None:
        rewards = np.asarray(verdict.rewards)
        if rewards.shape != (rows,) or rewards.dtype.kind not in "fiu" or not np.isfinite(rewards).all():
            raise LudusError(f"operator {name} must give {rows} finite rewards, got {rewards.dtype} {rewards.shape}")
    return verdict
