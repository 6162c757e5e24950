"""The operators of a run, one after the other: raw rows in, verified rows and refused ones out.

Invariants:
- Every row comes out exactly once, kept or refused, each in the order in which it came in.
- A group comes to the same whatever else is in the batch, so groups may be sifted one by one as they become complete,
  or many at once in the order of their tasks.
- Refused rows are as they came in, with `reason` and `detail`. Kept rows have what operators made of their rewards, and
  in `raw_reward` what they had before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ludus.config.flow import ExperienceConfig
from ludus.errors import ConfigError, LudusError
from ludus.experience.groups import find_groups
from ludus.experience.operators import Operator, make_operator
from ludus.experience.operators.custom import check_verdict
from ludus.experience.operators.protocol import Values, Why
from ludus.experience.refusals import Refusal, refusals_of, with_reasons
from ludus.experience.stages import set_totals
from ludus.records import Experiences

RAW_REWARD = "raw_reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
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


class Sieve:
    """Applies the operators in order. Keeps nothing between batches."""

    def __init__(self, operators: Sequence[tuple[str, Operator]] = ()) -> None:
        self._operators = tuple(operators)

    def __bool__(self) -> bool:
        return bool(self._operators)

    def sift(self, raw: Experiences) -> Sifted:
        """Judge the rows of whole groups.

        Raises:
            LudusError: an operator failed, or gave no verdict; its name is in the message.
        """
        if not len(raw) or not self._operators:
            return Sifted(kept=raw, refused=Experiences.empty(), metrics={})
        raw = raw.take(np.arange(len(raw)))
        left = np.arange(len(raw))
        rows = raw.replace(sequences={RAW_REWARD: raw.sequences["shaped_reward"].copy()})
        why: dict[int, Why] = {}
        metrics: dict[str, float] = {}
        for name, operator in self._operators:
            if not len(rows):
                break
            verdict = check_verdict(operator.judge(rows, find_groups(rows)), len(rows), name)
            if verdict.rewards is not None:
                rows = _with_rewards(rows, np.asarray(verdict.rewards, np.float64), name)
            why |= {int(left[row]): reason for row, reason in verdict.refused.items()}
            metrics |= {f"experience/{key}": _mean(values) for key, values in verdict.metrics.items() if len(values)}
            if verdict.refused:
                stays = np.setdiff1d(np.arange(len(rows)), np.fromiter(verdict.refused, np.int64))
                rows, left = rows.take(stays), left[stays]
        return Sifted(
            kept=rows,
            refused=with_reasons(raw, why),
            metrics={**metrics, "experience/kept": len(rows) / len(raw)},
        )


def build_sieve(config: ExperienceConfig) -> Sieve:
    """Make every operator that a config names, or say at once which are unknown."""
    operators, problems = [], []
    for place, choice in enumerate(config.operators):
        try:
            operators.append(make_operator(choice))
        except ConfigError as error:
            problems += [f"experience.operators.{place}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    return Sieve(operators)


def _with_rewards(rows: Experiences, rewards: Values, name: str) -> Experiences:
    with np.errstate(over="ignore"):
        shaped = set_totals(rows, rewards)
    if not np.isfinite(shaped.sequences["shaped_reward"]).all() or not np.isfinite(shaped.steps["reward"]).all():
        raise LudusError(f"operator {name} made a reward larger than a float of 32 bits can hold")
    return shaped


def _mean(values: object) -> float:
    return float(np.mean(np.asarray(values, np.float64)))
