"""The promises of a curriculum, a loader, an operator and a reward transform, as public checks.

from ludus.testing import check_transform
def test_mine(): check_transform("final", lambda: Mine(scale=2.0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ludus.errors import LudusError
from ludus.experience import Operator, Transform, TransformPhase, Verdict, find_groups
from ludus.experience.operators import PerGroup, check_verdict
from ludus.records import Experiences, derive_seed
from ludus.tasks import Curriculum
from ludus.testing.conformance import ConformanceError, call, require, through_json
from ludus.testing.experiences import are_equal, sample_batches, sample_experiences
from ludus.train.health import not_finite_row
from ludus.train.loaders import NEEDED, Loader

GROUPS = 64
BATCHES = 3
_ROWS = tuple({"prompt": f"{i} + {i} =", "answer": str(2 * i), "difficulty": i / 9} for i in range(10))

CurriculumFactory = Callable[[Sequence[dict[str, Any]], int], Curriculum]


def check_curriculum(factory: CurriculumFactory, *, rows: Sequence[dict[str, Any]] = _ROWS, seed: int = 0) -> None:
    """Raise `ConformanceError` naming the promise that the curriculum breaks.

    Covered: rows that exist, choices that do not depend on which others were asked for, feedback that changes nothing
    where it says so, and a state that goes through JSON and gives the same choices. Not covered: whether the order is
    the one you meant.
    """
    curriculum = factory(rows, seed)
    require(isinstance(curriculum, Curriculum), "it lacks adapts, choose, feedback, state or load_state")
    _check_choices(curriculum, factory(rows, seed), len(rows), range(GROUPS))
    before = _choices(curriculum, range(GROUPS))
    _give_feedback(curriculum, seed)
    if not curriculum.adapts:
        require(_choices(curriculum, range(GROUPS)) == before, "feedback changed its choices although adapts is False")
    resumed = factory(rows, seed)
    state = through_json(curriculum.state())
    resumed.load_state(state)
    require(through_json(resumed.state()) == state, "restored from its state, it has another state")
    _check_choices(curriculum, resumed, len(rows), range(GROUPS, 2 * GROUPS))


def _check_choices(one: Curriculum, other: Curriculum, count: int, numbers: range) -> None:
    """Both are in the same state; one is asked forwards and one backwards."""
    forwards = _choices(one, numbers)
    require(all(type(row) is int and 0 <= row < count for row in forwards), f"choose gave no row below {count}")
    backwards = _choices(other, numbers[::-1])
    require(backwards[::-1] == forwards, "in the same state, the same number gave another row")


def _choices(curriculum: Curriculum, numbers: range) -> list[int]:
    return [curriculum.choose(number) for number in numbers]


def _give_feedback(curriculum: Curriculum, seed: int) -> None:
    for number in range(GROUPS):
        rewards = [float(derive_seed(seed, "reward", number, attempt) % 2) for attempt in range(number % 5)]
        curriculum.feedback(curriculum.choose(number), rewards)


def check_loader(make: Callable[[], Loader]) -> None:
    """Raise `ConformanceError` naming the promise that the loader breaks.

    Covered: batches with at least one row and the columns that a learner reads, all of them finite; a state that is
    JSON, and from which a new loader gives the same batches. Not covered: whether the rows are the ones you meant.
    """
    loader = make()
    lacking = [name for name in ("next", "state", "load_state", "close") if not hasattr(loader, name)]
    require(not lacking, f"{type(loader).__name__} lacks {', '.join(f'{name}()' for name in lacking)}")
    try:
        for _ in range(BATCHES):
            _next_batch(loader)
        state = through_json(call("state", loader.state))
        resumed = make()
        try:
            call("load_state", resumed.load_state, state)
            for _ in range(BATCHES):
                same = are_equal(_next_batch(loader), _next_batch(resumed))
                require(same, "restored from its state, the loader gave another batch")
        finally:
            resumed.close()
    finally:
        loader.close()


def _next_batch(loader: Loader) -> Experiences:
    batch = call("next", loader.next)
    if not isinstance(batch, Experiences):
        raise ConformanceError(f"next gives Experiences, got {type(batch).__name__}")
    require(len(batch) > 0, "a batch has at least one sequence")
    missing = [name for name in NEEDED if name not in batch.steps]
    require(not missing, f"the steps lack {', '.join(missing)}")
    found = not_finite_row(batch.steps)
    require(not found, found)
    return batch


def check_operator(operator: Operator | Callable[..., Verdict], *, seed: int = 0, **options: Any) -> None:
    """Raise `ConformanceError` naming the promise that an operator breaks.

    Takes a function as it is registered, with its options, or an object with `judge`. Covered: sound verdicts (also on
    groups of one, equal rewards, rows without a group and several rows of one episode), arguments left alone, nothing
    remembered, and the same verdict on a group in any company. Not covered: whether the rule is the one you meant.
    """
    judge: Any = operator if hasattr(operator, "judge") else PerGroup("it", operator, options)
    for rows in _groups(seed):
        kept = {name: column.copy() for name, column in {**rows.sequences, **rows.steps}.items()}
        first = _judged(judge, rows)
        for name, column in {**rows.sequences, **rows.steps}.items():
            require(np.array_equal(column, kept[name]), f"it changed the column {name} of its rows")
        require(_same(first, _judged(judge, rows)), "asked again, it gave another verdict")
        _check_company(judge, rows, first)


def _check_company(judge: Any, rows: Experiences, whole: Verdict) -> None:
    of_rows = find_groups(rows).of_rows
    for group in range(int(of_rows.max()) + 1):
        places = np.flatnonzero(of_rows == group)
        alone = _judged(judge, rows.take(places))
        refused = {row: whole.refused[place] for row, place in enumerate(places.tolist()) if place in whole.refused}
        rewards = None if whole.rewards is None else np.asarray(whole.rewards)[places]
        is_same = _same(alone, Verdict(refused=refused, rewards=rewards))
        require(is_same, "a group got another verdict alone than in company")


def _judged(judge: Any, rows: Experiences) -> Verdict:
    try:
        return check_verdict(judge.judge(rows, find_groups(rows)), len(rows), "it")
    except LudusError as error:
        raise ConformanceError(str(error)) from error


def _same(one: Verdict, other: Verdict) -> bool:
    if (one.rewards is None) != (other.rewards is None) or dict(one.refused) != dict(other.refused):
        return False
    return one.rewards is None or other.rewards is None or np.array_equal(one.rewards, other.rewards)


def _groups(seed: int) -> list[Experiences]:
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


def check_transform(phase: TransformPhase, factory: Callable[[], Transform], *, seed: int = 0) -> None:
    """Raise `ConformanceError` naming the promise that the transform breaks.

    Covered: shape, finiteness (also for equal rewards and for one sequence), arguments left alone, the same result from
    the same state, and state that survives JSON. Not covered: whether the formula is the one you meant.
    """
    for batch in sample_batches(seed):
        transform = factory()
        values = _values(phase, batch)
        kept = values.copy()
        reward = batch.steps["reward"].copy()
        first = np.asarray(transform.apply(values, batch))
        require(first.shape == values.shape, f"apply returned shape {first.shape} for {values.shape} values")
        require(bool(np.isfinite(first).all()), "apply returned values that are not finite")
        require(np.array_equal(values, kept), "apply changed its values in place")
        require(np.array_equal(batch.steps["reward"], reward), "apply changed the experiences")
        require(np.array_equal(factory().apply(kept, batch), first), "a fresh transform gave another result")
        resumed = factory()
        resumed.load_state(through_json(transform.state()))
        later = sample_experiences((2, 4, 1), seed=seed + 1)
        values = _values(phase, later)
        same = np.array_equal(resumed.apply(values, later), transform.apply(values, later))
        require(same, "a transform restored from its state gave another result")


def _values(phase: TransformPhase, batch: Experiences) -> np.ndarray:
    column = batch.steps["reward"] if phase == "step" else batch.sequences["shaped_reward"]
    return column.astype(np.float64)
