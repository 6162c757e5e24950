"""The operators of a run, one after the other: raw rows in, verified rows and refused ones out.

Invariants:
- Every row comes out exactly once, kept or refused, each in the order in which it came in.
- A group comes to the same whatever else is in the batch, so groups may be filtered one by one as they become complete,
  or many at once in the order of their tasks.
- A greedy attempt is not learnt from, so no operator refuses it on its own: it stays as long as another member of its
  group does, and goes with the last of them.
- Refused rows are as they came in, with `reason` and `detail`. Kept rows have what operators made of their rewards, and
  in `raw_reward` what they had before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ludus.config import ExperienceConfig
from ludus.errors import ConfigError, LudusError
from ludus.experience.groups import are_greedy, find_groups
from ludus.experience.operators import Operator, Values, Why, check_verdict, make_operator
from ludus.experience.refusals import Refusal, refusals_of, with_reasons
from ludus.experience.transforms import set_totals
from ludus.records import Experiences

RAW_REWARD = "raw_reward"
_LONELY: Why = ("greedy_alone", "nothing is left of the group that this greedy attempt is compared with")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """What became of raw rows."""

    kept: Experiences
    refused: Experiences
    """As they came in, with the columns `reason` and `detail`."""
    metrics: dict[str, float]
    """Means over what came in, such as `experience/pass_rate`."""

    @property
    def refusals(self) -> list[Refusal]:
        """The refused rows as they are counted."""
        return refusals_of(self.refused)


class Filters:
    """Applies the operators in order. Keeps nothing between batches."""

    def __init__(self, operators: Sequence[tuple[str, Operator]] = ()) -> None:
        self._operators = tuple(operators)

    def __bool__(self) -> bool:
        return bool(self._operators)

    def apply(self, raw: Experiences) -> Filtered:
        """Judge the rows of whole groups.

        Raises:
            LudusError: an operator failed, or gave no verdict; its name is in the message.
        """
        greedy = are_greedy(raw)
        if not len(raw) or not (self._operators or greedy.any()):
            return Filtered(kept=raw, refused=Experiences.empty(), metrics={})
        raw = raw.take(np.arange(len(raw)))
        pile, metrics = _Pile(raw, greedy), dict[str, float]()
        for name, operator in self._operators:
            if not len(pile.rows):
                break
            verdict = check_verdict(operator.judge(pile.rows, find_groups(pile.rows)), len(pile.rows), name)
            if verdict.rewards is not None:
                pile.rows = _with_rewards(pile.rows, np.asarray(verdict.rewards, np.float64), name)
            means = {
                key: np.mean(np.asarray(values, np.float64)) for key, values in verdict.metrics.items() if len(values)
            }
            metrics |= {f"experience/{key}": float(mean) for key, mean in means.items()}
            pile.refuse(verdict.refused)
        pile.refuse_lonely()
        return Filtered(
            kept=pile.rows,
            refused=with_reasons(raw, pile.why),
            metrics={**metrics, "experience/kept": len(pile.rows) / len(raw)},
        )


class _Pile:
    """The rows that are left, and why the others are not."""

    def __init__(self, raw: Experiences, greedy: NDArray[np.bool_]) -> None:
        self.rows = raw.replace(sequences={RAW_REWARD: raw.sequences["shaped_reward"].copy()})
        self.why: dict[int, Why] = {}
        """By index among the raw rows."""
        self._left = np.arange(len(raw))
        self._greedy = greedy
        self._spared: dict[int, Why] = {}

    def refuse(self, refused: Mapping[int, Why]) -> None:
        """Take rows away, by index among those that are left; greedy attempts stay for now."""
        spared = {row: why for row, why in refused.items() if self._greedy[self._left[row]]}
        self._spared |= {int(self._left[row]): why for row, why in spared.items()}
        self._take({row: why for row, why in refused.items() if row not in spared})

    def refuse_lonely(self) -> None:
        """Take away greedy attempts that nobody is left to be compared with."""
        greedy = self._greedy[self._left]
        if not greedy.any():
            return
        group = find_groups(self.rows).of_rows
        lonely = np.flatnonzero(greedy & (np.bincount(group, ~greedy)[group] == 0)).tolist()
        self._take({row: self._spared.get(int(self._left[row]), _LONELY) for row in lonely})

    def _take(self, refused: Mapping[int, Why]) -> None:
        if refused:
            self.why |= {int(self._left[row]): why for row, why in refused.items()}
            stays = np.setdiff1d(np.arange(len(self.rows)), np.fromiter(refused, np.int64))
            self.rows, self._left = self.rows.take(stays), self._left[stays]


def build_filters(config: ExperienceConfig) -> Filters:
    """Make every operator that a config names, or say at once which are unknown."""
    operators, problems = [], []
    for place, choice in enumerate(config.operators):
        try:
            operators.append(make_operator(choice))
        except ConfigError as error:
            problems += [f"experience.operators.{place}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    return Filters(operators)


def _with_rewards(rows: Experiences, rewards: Values, name: str) -> Experiences:
    with np.errstate(over="ignore"):
        shaped = set_totals(rows, rewards)
    if not np.isfinite(shaped.sequences["shaped_reward"]).all() or not np.isfinite(shaped.steps["reward"]).all():
        raise LudusError(f"operator {name} made a reward larger than a float of 32 bits can hold")
    return shaped
