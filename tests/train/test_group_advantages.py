"""Advantages within groups: who is compared with whom, and the traps of doing so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.config import AdvantageConfig
from ludus.errors import TrainError
from ludus.records import Experiences
from ludus.train.advantages import compute
from ludus.train.group_advantages import equal_groups


def episodes(rewards: list[float], groups: list[str], **columns: list[Any]) -> Experiences:
    """One sequence of a prompt token and two sampled ones per reward, which arrives at the end."""
    count = len(rewards)
    reward = np.zeros((count, 3), np.float32)
    reward[:, 2] = rewards
    names = {"episode": [f"e{i}" for i in range(count)], "group": groups, **columns}
    return Experiences(
        sequences={name: np.array(column, object) for name, column in names.items()},
        offsets=np.arange(0, 3 * count + 1, 3),
        steps={"mask": np.tile([False, True, True], count), "reward": reward.reshape(-1)},
    )


def advantage(of: Experiences, **config: Any) -> np.ndarray:
    """One number per sequence, having checked that all its sampled tokens have it and others 0."""
    config = {"kind": "group", **config}
    found = compute(of, AdvantageConfig(**config))[0].reshape(-1, 3)
    assert (found[:, 0] == 0).all()
    assert (found[:, 1] == found[:, 2]).all()
    return found[:, 1]


def test_rewards_are_compared_within_the_group_by_the_unbiased_deviation() -> None:
    of = episodes([1.0, 10.0, 3.0, 30.0], ["a", "b", "a", "b"])
    expected = [-1 / np.sqrt(2), -10 / np.sqrt(200), 1 / np.sqrt(2), 10 / np.sqrt(200)]
    np.testing.assert_allclose(advantage(of, scale_eps=1e-12), expected, rtol=1e-6)


def test_the_deviation_may_be_that_of_the_batch_or_be_left_out() -> None:
    of = episodes([1.0, 10.0, 3.0, 30.0], ["a", "b", "a", "b"])
    np.testing.assert_allclose(advantage(of, scale="none"), [-1, -10, 1, 10])
    deviation = np.std([1.0, 10.0, 3.0, 30.0], ddof=1)
    np.testing.assert_allclose(advantage(of, scale="batch"), np.array([-1, -10, 1, 10]) / (deviation + 1e-4), rtol=1e-6)


def test_leave_one_out_compares_with_the_others() -> None:
    of = episodes([1.0, 4.0, 7.0], ["a", "a", "a"])
    np.testing.assert_allclose(advantage(of, kind="rloo"), [1 - 5.5, 4 - 4, 7 - 2.5], atol=1e-6)


@pytest.mark.parametrize("config", [{}, {"scale": "batch"}, {"scale": "none"}, {"kind": "rloo"}])
def test_alone_in_a_group_there_is_no_advantage(config: dict[str, Any]) -> None:
    of = episodes([5.0, 1.0, 2.0, 9.0], ["a", "b", "b", ""])
    found = advantage(of, **config)
    assert found[0] == found[3] == 0.0
    assert found[1] < 0 < found[2]


def test_episodes_without_a_group_are_not_compared_with_each_other() -> None:
    assert (advantage(episodes([5.0, 1.0], ["", ""])) == 0).all()


def test_equal_rewards_give_no_advantage() -> None:
    assert (advantage(episodes([0.1, 0.1, 0.1], ["a"] * 3)) == 0).all()


def test_seats_are_compared_with_the_same_seat_only() -> None:
    of = episodes([1.0, -1.0, 3.0, -3.0], ["a"] * 4, seat=[0, 1, 0, 1], episode=["x", "x", "y", "y"])
    np.testing.assert_allclose(advantage(of, scale="none"), [-1, 1, 1, -1])


def test_the_turns_of_one_seat_are_one_member() -> None:
    """Episode x has two rows, each given its reward 4; y has one: the mean is that of episodes, not of rows."""
    of = episodes([4.0, 4.0, 2.0], ["a"] * 3, seat=[0, 0, 0], episode=["x", "x", "y"])
    np.testing.assert_allclose(advantage(of, scale="none"), [1, 1, -1])
    np.testing.assert_allclose(advantage(of, kind="rloo"), [2, 2, -2])
    alone = episodes([4.0, 4.0], ["a"] * 2, seat=[0, 0], episode=["x", "x"])
    assert (advantage(alone) == 0).all()


def test_a_turn_that_was_rewarded_by_itself_keeps_the_difference() -> None:
    of = episodes([5.0, 3.0, 2.0], ["a"] * 3, seat=[0, 0, 0], episode=["x", "x", "y"])
    np.testing.assert_allclose(advantage(of, scale="none"), [2, 0, -1])


def test_rewards_count_from_the_first_choice_on() -> None:
    of = episodes([1.0, 2.0], ["a", "a"])
    of.steps["reward"][0] = 100.0  # before sequence 0 chose anything
    of.steps["reward"][4] = 5.0
    advantages, targets = compute(of, AdvantageConfig(kind="group", scale="none"))
    np.testing.assert_allclose(targets, [0, 1, 1, 0, 7, 7])
    np.testing.assert_allclose(advantages, [0, -3, -3, 0, 3, 3])


def test_a_slice_of_a_larger_batch_is_compared_by_itself() -> None:
    whole = episodes([1.0, 2.0, 3.0, 6.0], ["a"] * 4)
    part = Experiences(
        sequences={name: column[2:] for name, column in whole.sequences.items()},
        offsets=whole.offsets[2:],
        steps=whole.steps,
    )
    np.testing.assert_allclose(advantage(part, scale="none"), [-1.5, 1.5])


def test_experience_without_groups_is_refused() -> None:
    of = episodes([1.0], ["a"])
    with pytest.raises(TrainError, match="has no groups"):
        compute(Experiences(sequences={}, offsets=of.offsets, steps=of.steps), AdvantageConfig(kind="rloo"))


def test_nothing_gives_nothing() -> None:
    empty = episodes([], [])
    assert compute(empty, AdvantageConfig(kind="group"))[0].shape == (0,)


REWARDS, GROUPS = [1.0, 0.0, 0.5, 2.0, -1.0], ["a", "a", "a", "b", "b"]


def test_opmd_compares_with_the_mean_or_with_a_soft_maximum() -> None:
    rewards = np.array(REWARDS)
    np.testing.assert_allclose(advantage(episodes(REWARDS, GROUPS), kind="opmd"), rewards - 0.5, rtol=1e-6)
    for tau in (0.1, 1.0, 100.0):
        soft = tau * (np.log(np.exp(rewards[:3] / tau).sum()) - np.log(3))
        found = advantage(episodes(REWARDS, GROUPS), kind="opmd", baseline="logavgexp", tau=tau)
        np.testing.assert_allclose(found[:3], rewards[:3] - soft, rtol=1e-4, atol=1e-6)
    huge = episodes([1e5 * reward for reward in REWARDS], GROUPS)
    assert np.isfinite(advantage(huge, kind="opmd", baseline="logavgexp", tau=0.1)).all()


def test_asymre_lowers_what_is_compared_with() -> None:
    found = advantage(episodes(REWARDS, GROUPS), kind="asymre", baseline_shift=-0.25)
    np.testing.assert_allclose(found, np.array(REWARDS) - 0.25, rtol=1e-6)


@pytest.mark.parametrize("kind", ["opmd", "asymre"])
def test_alone_nothing_is_above_a_baseline(kind: Any) -> None:
    np.testing.assert_array_equal(advantage(episodes([3.0], ["g"]), kind=kind), [0.0])


def test_groups_of_equal_rewards_are_counted_and_those_of_one_are_not() -> None:
    assert equal_groups(episodes([1.0, 1.0, 0.5, 2.0, 7.0], ["a", "a", "b", "b", "c"])) == 0.5
    assert equal_groups(episodes([7.0], ["c"])) == 0.0
    assert equal_groups(Experiences.empty()) == 0.0
