"""The promises of an operator, as one public check.

from ludus.testing.operators import check_operator
def test_mine(): check_operator(my_function, threshold=0.5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ludus.errors import LudusError
from ludus.experience import Operator, Verdict, find_groups
from ludus.experience.operators import PerGroup, check_verdict
from ludus.records import Experiences
from ludus.testing.conformance import ConformanceError
from ludus.testing.experiences import sample_experiences


def check_operator(operator: Operator | Callable[..., Verdict], *, seed: int = 0, **options: Any) -> None:
    """Raise `ConformanceError` naming the promise that an operator breaks.

    Takes a function as it is registered, with its options, or an object with `judge`. Covered: sound verdicts (also on
    groups of one, equal rewards, rows without a group and several rows of one episode), arguments left alone, nothing
    remembered, and the same verdict on a group in any company. Not covered: whether the rule is the one you meant.
    """
    judge: Any = operator if hasattr(operator, "judge") else PerGroup("it", operator, options)
    for rows in _batches(seed):
        kept = {name: column.copy() for name, column in _columns(rows).items()}
        first = _judged(judge, rows)
        for name, column in _columns(rows).items():
            _require(np.array_equal(column, kept[name]), f"it changed the column {name} of its rows")
        _require(_same(first, _judged(judge, rows)), "asked again, it gave another verdict")
        _check_company(judge, rows, first)


def _check_company(judge: Any, rows: Experiences, whole: Verdict) -> None:
    of_rows = find_groups(rows).of_rows
    for group in range(int(of_rows.max()) + 1):
        places = np.flatnonzero(of_rows == group)
        alone = _judged(judge, rows.take(places))
        refused = {row: whole.refused[place] for row, place in enumerate(places.tolist()) if place in whole.refused}
        rewards = None if whole.rewards is None else np.asarray(whole.rewards)[places]
        is_same = _same(alone, Verdict(refused=refused, rewards=rewards))
        _require(is_same, "a group got another verdict alone than in company")


def _judged(judge: Any, rows: Experiences) -> Verdict:
    try:
        return check_verdict(judge.judge(rows, find_groups(rows)), len(rows), "it")
    except LudusError as error:
        raise ConformanceError(str(error)) from error


def _same(one: Verdict, other: Verdict) -> bool:
    if (one.rewards is None) != (other.rewards is None) or dict(one.refused) != dict(other.refused):
        return False
    return one.rewards is None or other.rewards is None or np.array_equal(one.rewards, other.rewards)


def _columns(rows: Experiences) -> dict[str, Any]:
    return {**rows.sequences, **rows.steps}


def _batches(seed: int) -> list[Experiences]:
    rng = np.random.default_rng(seed)
    several = sample_experiences(
        rng.integers(2, 6, 12).tolist(), rewards=rng.choice([0.0, 0.5, 1.0], 12).tolist(), tokens=True, seed=seed
    )
    names = np.array(["g0"] * 4 + ["g1"] * 4 + ["g2"] * 2 + [""] * 2, object)
    turns = {"episode": np.array([f"episode-{row // 2}" for row in range(12)], object), "turn": np.arange(12) % 2}
    equal = sample_experiences((2, 2, 2), rewards=(1.0, 1.0, 1.0), seed=seed)
    return [
        several.replace(sequences={"group": names}),
        several.replace(sequences={"group": names, **turns}),
        equal.replace(sequences={"group": np.array(["g", "g", "g"], object)}),
        sample_experiences((3,), seed=seed),
    ]


def _require(holds: bool, broken: str) -> None:
    if not holds:
        raise ConformanceError(broken)
