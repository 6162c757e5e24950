"""`check_reward` finds every promise that a reward can break, and passes one that keeps them."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from ludus.rewards import Attempt, Mark
from ludus.testing import ConformanceError, check_reward

ATTEMPTS = [Attempt(response="4", inputs={"prompt": "2 + 2?", "answer": "4", "seen": []})]


def good(attempt: Attempt) -> Mark:
    return Mark(value=float(attempt.response.strip() == attempt.need("answer")), note="compared")


async def also_good(attempt: Attempt) -> float:
    return 0.0


@pytest.mark.parametrize("function", [good, also_good])
def test_good_rewards_pass(function: Any) -> None:
    check_reward(function, ATTEMPTS)


numbers = itertools.count()


def remembers(attempt: Attempt) -> float:
    return float(next(numbers) % 1000)


def depends_on_what_came_before(attempt: Attempt) -> float:
    attempt.inputs["seen"].append(1)
    return 0.0


def sleeps(attempt: Attempt) -> float:
    time.sleep(0.02)
    return 0.0


def parses(attempt: Attempt) -> float:
    return float(attempt.response)


@pytest.mark.parametrize(
    ("function", "promise"),
    [
        (lambda attempt: None, "every response has a reward"),
        (lambda attempt: "1", "every response has a reward"),
        (lambda attempt: 1e308, "every response has a reward"),
        (lambda attempt: [1.0], "every response has a reward"),
        (parses, "every response has a reward; for the response ''"),
        (remembers, "the same attempt has the same reward"),
        (depends_on_what_came_before, "leaves the task and its options alone"),
        (sleeps, "takes at most 0.01 s"),
        ("not a function", "is a function of an attempt"),
    ],
)
def test_each_broken_promise_is_named(function: Any, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_reward(function, ATTEMPTS, limit_s=0.01 if function is sleeps else 5.0)


def test_a_reward_is_checked_with_something() -> None:
    with pytest.raises(ConformanceError, match="at least one attempt"):
        check_reward(good, [])
