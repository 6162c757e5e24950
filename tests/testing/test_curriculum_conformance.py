"""The checker is checked: sound curricula pass, and one that breaks a promise is caught by that promise."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import TypeAdapter

from ludus.config.sections.tasks import OrderConfig
from ludus.tasks import Fixed
from ludus.tasks.curricula import CURRICULA, make_curriculum
from ludus.testing import ConformanceError, check_curriculum

ORDER: TypeAdapter[Any] = TypeAdapter(OrderConfig)


@pytest.mark.parametrize("kind", sorted(CURRICULA.keys() - {"custom"}))
def test_every_built_in_order_conforms(kind: str) -> None:
    check_curriculum(lambda rows, seed: make_curriculum(ORDER.validate_python(kind), rows, seed))


class Sound:
    """Moves on when feedback was good."""

    adapts = True

    def __init__(self, rows: Sequence[Any], seed: int) -> None:
        self.count, self.seed, self.shift = len(rows), seed, 0

    def choose(self, number: int) -> int:
        return (number + self.shift) % self.count

    def feedback(self, row: int, rewards: Sequence[float]) -> None:
        self.shift += int(sum(rewards))

    def state(self) -> dict[str, Any]:
        return {"shift": self.shift}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.shift = state["shift"]


class Beyond(Sound):
    def choose(self, number: int) -> int:
        return number


class CountsItself(Sound):
    def choose(self, number: int) -> int:
        self.shift += 1
        return self.shift % self.count


class Unseeded(Sound):
    def choose(self, number: int) -> int:
        return random.randrange(self.count)


class Secretive(Sound):
    adapts = False


class Forgetful(Sound):
    def state(self) -> dict[str, Any]:
        return {"shift": 0}


class Lossy(Sound):
    def load_state(self, state: Mapping[str, Any]) -> None:
        self.shift = 0


class NotJson(Sound):
    def state(self) -> dict[str, Any]:
        return {"shift": {self.shift}}


class Bare(Fixed):
    pass


def test_a_sound_one_passes() -> None:
    check_curriculum(Sound)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Beyond, "choose gave no row below 10"),
        (CountsItself, "in the same state, the same number gave another row"),
        (Unseeded, "in the same state, the same number gave another row"),
        (Secretive, "feedback changed its choices although adapts is False"),
        (Forgetful, "the same number gave another row"),
        (Lossy, "restored from its state, it has another state"),
        (NotJson, "state is not JSON"),
        (lambda rows, seed: Bare(), "it lacks adapts, choose"),
    ],
)
def test_a_broken_one_is_caught_by_the_promise_that_it_breaks(broken: Any, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_curriculum(broken)
