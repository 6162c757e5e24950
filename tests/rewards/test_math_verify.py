"""The reward `math_verify`, with the real package, in its own process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ludus.config.sections.rewards import MathVerifyRewardConfig
from ludus.errors import ConfigError, RewardError
from ludus.rewards.attempt import Attempt, Reward
from ludus.rewards.custom import CustomReward, RewardProcesses
from ludus.rewards.making import check_rewards


@pytest.fixture(scope="module")
def processes() -> Iterator[RewardProcesses]:
    processes = RewardProcesses(1, plugins=(), rewards=["math_verify"])
    yield processes
    processes.close()


@pytest.fixture(scope="module")
def reward(processes: RewardProcesses) -> Reward:
    return CustomReward(MathVerifyRewardConfig(kind="math_verify", limit_s=60.0), processes)


def mark(reward: Reward, response: str, answer: Any) -> float:
    attempt = Attempt(response=response, inputs={"answer": answer}, options={}, seed=0, tokens=None)
    return asyncio.run(reward.mark(attempt)).value


@pytest.mark.parametrize(
    ("response", "answer", "value"),
    [
        (r"so it is \boxed{\frac{1}{2}}", "0.5", 1.0),
        ("The answer is 7.", 7, 1.0),
        (r"\boxed{x^2 + 2x + 1}", "(x+1)^2", 1.0),
        (r"\boxed{8}", "7", 0.0),
        ("I do not know", "7", 0.0),
        ("", "7", 0.0),
    ],
)
def test_answers_that_are_equal_get_1(reward: Reward, response: str, answer: Any, value: float) -> None:
    assert mark(reward, response, answer) == value


def test_an_answer_of_the_task_that_is_no_mathematics_costs_the_episode(reward: Reward) -> None:
    with pytest.raises(RewardError, match="the task's answer cannot be read as mathematics"):
        mark(reward, "7", "")


def test_an_answer_that_takes_too_long_costs_the_episode_alone(processes: RewardProcesses, reward: Reward) -> None:
    assert mark(reward, "7", "7") == 1.0
    hasty = CustomReward(MathVerifyRewardConfig(kind="math_verify", limit_s=2.0), processes)
    with pytest.raises(RewardError):
        mark(hasty, r"\boxed{9^{9^{9^{9}}}}", r"9^{9^{9^{8}}}")
    assert mark(reward, "7", "7") == 1.0


def test_without_the_package_the_config_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^rewards\.math_verify: math_verify needs math-verify; install with: pip"):
        check_rewards([MathVerifyRewardConfig(kind="math_verify")])
