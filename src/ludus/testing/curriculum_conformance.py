"""The promises of a curriculum, as one public check.

from ludus.testing import check_curriculum
def test_mine(): check_curriculum(lambda rows, seed: Mine(rows, seed, step=2))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ludus.records import derive_seed
from ludus.tasks import Curriculum
from ludus.testing.conformance import ConformanceError

GROUPS = 64
_ROWS = tuple({"prompt": f"{i} + {i} =", "answer": str(2 * i), "difficulty": i / 9} for i in range(10))

Factory = Callable[[Sequence[dict[str, Any]], int], Curriculum]


def check_curriculum(factory: Factory, *, rows: Sequence[dict[str, Any]] = _ROWS, seed: int = 0) -> None:
    """Raise `ConformanceError` naming the promise that the curriculum breaks.

    Covered: rows that exist, choices that do not depend on which others were asked for, feedback that changes nothing
    where it says so, and a state that goes through JSON and gives the same choices. Not covered: whether the order is
    the one you meant.
    """
    curriculum = factory(rows, seed)
    _require(isinstance(curriculum, Curriculum), "it lacks adapts, choose, feedback, state or load_state")
    _check_choices(curriculum, factory(rows, seed), len(rows), range(GROUPS))
    before = _choices(curriculum, range(GROUPS))
    _give_feedback(curriculum, seed)
    if not curriculum.adapts:
        _require(_choices(curriculum, range(GROUPS)) == before, "feedback changed its choices although adapts is False")
    resumed = factory(rows, seed)
    state = _through_json(curriculum.state())
    resumed.load_state(state)
    _require(_through_json(resumed.state()) == state, "restored from its state, it has another state")
    _check_choices(curriculum, resumed, len(rows), range(GROUPS, 2 * GROUPS))


def _check_choices(one: Curriculum, other: Curriculum, count: int, numbers: range) -> None:
    """Both are in the same state; one is asked forwards and one backwards."""
    forwards = _choices(one, numbers)
    _require(all(type(row) is int and 0 <= row < count for row in forwards), f"choose gave no row below {count}")
    backwards = _choices(other, numbers[::-1])
    _require(backwards[::-1] == forwards, "in the same state, the same number gave another row")


def _choices(curriculum: Curriculum, numbers: range) -> list[int]:
    return [curriculum.choose(number) for number in numbers]


def _give_feedback(curriculum: Curriculum, seed: int) -> None:
    for number in range(GROUPS):
        rewards = [float(derive_seed(seed, "reward", number, attempt) % 2) for attempt in range(number % 5)]
        curriculum.feedback(curriculum.choose(number), rewards)


def _through_json(state: dict[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"state is not JSON: {error}") from error


def _require(holds: bool, broken: str) -> None:
    if not holds:
        raise ConformanceError(broken)
