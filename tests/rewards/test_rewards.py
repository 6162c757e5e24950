"""The weighted sum: parts, notes, counts, and errors that name their part."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ludus.errors import PolicyError, RewardError, TimeoutExceeded
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.rewards.attempt import Attempt, Instant, Mark, Reward
from ludus.rewards.rewards import Part, Rewards

TASK = Task(
    id=TaskId(1),
    game="tasks:test",
    seed=1,
    seats=(Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),),
    inputs={"prompt": "?"},
)


class Gives(Instant):
    """Gives what it was told to, or raises it."""

    def __init__(self, given: Any, note: str = "") -> None:
        self.given = given
        self.note = note
        self.attempts: list[Attempt] = []
        self.is_closed = False

    async def mark(self, attempt: Attempt) -> Mark:
        self.attempts.append(attempt)
        if isinstance(self.given, Exception):
            raise self.given
        return Mark(value=self.given, note=self.note) if isinstance(self.given, float) else self.given

    async def close(self) -> None:
        self.is_closed = True


def rewards(**given: tuple[float, Reward]) -> Rewards:
    return Rewards([Part(label=label, weight=weight, reward=reward) for label, (weight, reward) in given.items()])


def test_the_total_is_the_weighted_sum_and_every_part_is_told() -> None:
    both = rewards(right=(2.0, Gives(0.5, "half right")), short=(-1.0, Gives(0.25)))
    scored = asyncio.run(both.score(TASK, "x", seed=3))
    assert scored.total == 0.75
    assert scored.parts == {"right": 0.5, "short": 0.25}
    assert scored.notes == {"right": "half right"}


def test_each_part_has_a_seed_of_its_own_that_repeats() -> None:
    one, other = Gives(1.0), Gives(1.0)
    both = rewards(one=(1.0, one), other=(1.0, other))
    for seed in (3, 3, 4):
        asyncio.run(both.score(TASK, "x", seed=seed, tokens=5))
    seeds = [attempt.seed for attempt in one.attempts]
    assert seeds[0] == seeds[1] != seeds[2]
    assert other.attempts[0].seed != seeds[0]
    assert (one.attempts[0].inputs, one.attempts[0].tokens) == (TASK.inputs, 5)


JUNK = ["1", True, None, 1e308, float("nan"), float("inf"), [1.0, 2.0], {"value": 1.0}, -1e7, 1j, 10**400]


@pytest.mark.parametrize("junk", JUNK, ids=str)
def test_junk_is_an_error_that_names_the_part(junk: Any) -> None:
    with pytest.raises(RewardError, match=r"^reward odd: expected a number"):
        asyncio.run(rewards(odd=(1.0, Gives(junk))).score(TASK, "x", seed=1))
    with pytest.raises(RewardError, match=r"^reward odd: expected a number"):
        asyncio.run(rewards(odd=(1.0, Gives(Mark(value=junk)))).score(TASK, "x", seed=1))


def test_a_sum_that_is_no_number_is_an_error() -> None:
    with pytest.raises(RewardError, match="expected a number between"):
        asyncio.run(rewards(a=(1e300, Gives(1e6)), b=(1e300, Gives(1e6))).score(TASK, "x", seed=1))


@pytest.mark.parametrize("error", [PolicyError("no answer"), TimeoutExceeded("too late"), RewardError("no score")])
def test_typed_errors_keep_their_type(error: Exception) -> None:
    with pytest.raises(type(error), match=f"^reward judge: {error}$"):
        asyncio.run(rewards(judge=(1.0, Gives(error))).score(TASK, "x", seed=1))


def test_whatever_else_escapes_is_a_reward_error() -> None:
    with pytest.raises(RewardError, match=r"^reward own: it raised: ZeroDivisionError: by zero$"):
        asyncio.run(rewards(own=(1.0, Gives(ZeroDivisionError("by zero")))).score(TASK, "x", seed=1))


def test_what_was_done_is_counted_once() -> None:
    good, bad = Gives(0.5), Gives(1.0)
    both = rewards(good=(1.0, good), bad=(1.0, bad))
    asyncio.run(both.score(TASK, "x", seed=1))
    bad.given = ValueError("no")
    with pytest.raises(RewardError):
        asyncio.run(both.score(TASK, "x", seed=1))
    assert both.take_counts() == {
        "rewards/bad/failed": 1.0,
        "rewards/bad/scored": 1.0,
        "rewards/bad/sum": 1.0,
        "rewards/good/scored": 2.0,
        "rewards/good/sum": 1.0,
    }
    assert both.take_counts() == {}


def test_what_is_scored_in_an_evaluation_is_not_counted_as_training() -> None:
    one = rewards(good=(1.0, Gives(0.5)))
    scored = asyncio.run(one.score(replace(TASK, purpose="evaluate"), "x", seed=1))
    assert scored.total == 0.5
    assert one.take_counts() == {}


def test_half_characters_do_not_get_any_further() -> None:
    reward = Gives(1.0)
    asyncio.run(rewards(one=(1.0, reward)).score(TASK, "a\ud800b", seed=1))
    assert reward.attempts[0].response == "a?b"


def test_close_reaches_every_part() -> None:
    parts = [Gives(1.0), Gives(1.0)]
    asyncio.run(rewards(one=(1.0, parts[0]), other=(1.0, parts[1])).close())
    assert [part.is_closed for part in parts] == [True, True]


def test_no_rewards_are_worth_nothing() -> None:
    assert asyncio.run(rewards().score(TASK, "x", seed=1)).total == 0.0
