"""Advantages of ragged experience, against a plain loop over one sequence at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.config import AdvantageConfig
from ludus.records import Experiences
from ludus.train.advantages import compute, compute_on_policy, distill, gae, monte_carlo, remax, vtrace, whitened
from ludus.train.sources import EXPERT, ON_POLICY


def experience(*sequences: dict[str, Any], truncated: list[bool] | None = None, **columns: Any) -> Experiences:
    """Sequences from lists of reward, value and (optionally) mask and logp."""
    lengths = [len(one["reward"]) for one in sequences]
    filled = [{"mask": [True] * n, "logp": [0.0] * n, **one} for one, n in zip(sequences, lengths, strict=True)]
    types = {"reward": np.float32, "value": np.float32, "logp": np.float32, "mask": bool}
    return Experiences(
        sequences={"truncated": np.array(truncated or [False] * len(sequences)), **columns},
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        steps={name: np.concatenate([one[name] for one in filled]).astype(kind) for name, kind in types.items()},
    )


def plain_gae(reward: Any, value: Any, bootstrap: float, gamma: float, lam: float) -> np.ndarray:
    advantage, following = np.zeros(len(reward)), 0.0
    for t in reversed(range(len(reward))):
        ahead = value[t + 1] if t + 1 < len(value) else bootstrap
        following = reward[t] + gamma * ahead - value[t] + gamma * lam * following
        advantage[t] = following
    return advantage


def test_gae_equals_a_loop_over_each_sequence() -> None:
    random = np.random.default_rng(0)
    sequences = [{"reward": random.normal(size=n), "value": random.normal(size=n)} for n in (1, 7, 3, 12)]
    advantage, target = gae(experience(*sequences), gamma=0.9, lam=0.8)
    expected = np.concatenate([plain_gae(s["reward"], s["value"], 0.0, 0.9, 0.8) for s in sequences])
    np.testing.assert_allclose(advantage, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(target - advantage, np.concatenate([s["value"] for s in sequences]), atol=1e-5)


def test_monte_carlo_is_the_discounted_return_without_a_baseline() -> None:
    both = monte_carlo(experience({"reward": [1, 2, 4], "value": [9, 9, 9]}, {"reward": [3], "value": [9]}), gamma=0.5)
    for column in both:
        np.testing.assert_allclose(column, [3.0, 4.0, 4.0, 3.0])


def test_values_and_advantages_are_carried_over_masked_elements() -> None:
    """A prompt, two tokens, an opponent's turn, two tokens: as if the others' elements were not there."""
    mask = [False, True, True, False, False, True, True]
    value = np.array([50.0, 0.1, 0.2, 50.0, 50.0, 0.3, 0.4])
    reward = np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
    advantage, target = gae(experience({"reward": reward, "value": value, "mask": mask}), gamma=0.9, lam=0.7)
    kept = np.array(mask)
    np.testing.assert_allclose(advantage[kept], plain_gae(reward[kept], value[kept], 0.0, 0.9, 0.7), rtol=1e-5)
    np.testing.assert_array_equal(advantage[~kept], 0.0)
    np.testing.assert_array_equal(target[~kept], 0.0)


def test_a_reward_on_a_masked_element_belongs_to_the_decision_before_it() -> None:
    after = {"reward": [0.0, 0.0, 2.0, 0.0], "value": [0.0] * 4, "mask": [True, False, False, True]}
    before = {"reward": [7.0, 1.0], "value": [0.0] * 2, "mask": [False, True]}
    advantage, _ = gae(experience(after, before), gamma=0.5, lam=1.0)
    np.testing.assert_allclose(advantage, [2.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def test_a_sequence_without_decisions_is_all_zero_and_takes_nothing_from_its_neighbours() -> None:
    empty = {"reward": [5.0, 5.0], "value": [1.0, 1.0], "mask": [False, False]}
    full = {"reward": [1.0], "value": [0.0]}
    advantage, target = gae(experience(full, empty, full))
    np.testing.assert_array_equal(advantage, [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(target, [1.0, 0.0, 0.0, 1.0])


def test_a_truncated_sequence_counts_on_its_last_value() -> None:
    one = {"reward": [0.0, 0.0], "value": [0.5, 0.8]}
    advantage, target = gae(experience(one, one, truncated=[True, False]), gamma=1.0, lam=1.0)
    np.testing.assert_allclose(target, [0.8, 0.8, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(advantage, [0.3, 0.0, -0.5, -0.8], atol=1e-6)


def test_a_bootstrap_column_decides_what_follows_a_truncation() -> None:
    one = {"reward": [1.0], "value": [0.5]}
    batch = experience(one, one, truncated=[True, False], bootstrap_value=np.array([4.0, 4.0], np.float32))
    np.testing.assert_allclose(gae(batch, gamma=0.5)[1], [3.0, 1.0])
    np.testing.assert_allclose(monte_carlo(batch, gamma=0.5)[0], [3.0, 1.0])


def test_vtrace_on_policy_is_gae() -> None:
    random = np.random.default_rng(1)
    batch = experience(*({"reward": random.normal(size=n), "value": random.normal(size=n)} for n in (4, 9)))
    for current in (None, batch.steps["logp"]):
        for mine, theirs in zip(
            vtrace(batch, current, gamma=0.9, lam=0.8), gae(batch, gamma=0.9, lam=0.8), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_vtrace_ignores_what_the_current_policy_would_never_do() -> None:
    batch = experience({"reward": [0.0, 5.0], "value": [0.25, 0.5]})
    advantage, target = vtrace(batch, np.array([-50.0, -50.0], np.float32))
    np.testing.assert_allclose(advantage, 0.0, atol=1e-6)
    np.testing.assert_allclose(target, batch.steps["value"], atol=1e-6)


@pytest.mark.parametrize("kind", ["gae", "monte_carlo", "vtrace"])
def test_compute_goes_by_the_config(kind: Any) -> None:
    batch = experience({"reward": [0.0, 1.0], "value": [0.1, 0.2]})
    config = AdvantageConfig(kind=kind, gamma=0.9, lam=0.5)
    by_name = {"gae": gae(batch, gamma=0.9, lam=0.5), "monte_carlo": monte_carlo(batch, gamma=0.9)}
    expected = by_name.get(kind, vtrace(batch, None, gamma=0.9, lam=0.5))
    np.testing.assert_array_equal(compute(batch, config), expected)


def test_no_experience_gives_no_advantages() -> None:
    batch = Experiences(
        sequences={"truncated": np.zeros(0, bool)},
        offsets=np.zeros(1, np.int64),
        steps={name: np.zeros(0, np.float32) for name in ("reward", "value", "logp", "mask")},
    )
    assert all(len(column) == 0 for column in compute(batch, AdvantageConfig()))


def test_a_batch_taken_from_the_middle_of_a_store_is_credited_alike() -> None:
    """Offsets need not begin at 0: a reader may hand out a slice of a larger table."""
    random = np.random.default_rng(2)
    whole = experience(*({"reward": random.normal(size=5), "value": random.normal(size=5)} for _ in range(3)))
    middle = Experiences(
        sequences={"truncated": whole.sequences["truncated"][1:]}, offsets=whole.offsets[1:], steps=whole.steps
    )
    np.testing.assert_allclose(gae(middle)[0], gae(whole)[0][5:], rtol=1e-6)


def test_remax_compares_the_return_with_the_greedy_answer() -> None:
    words = {"reward": [9.0, 0.0, 1.0], "value": [0.0] * 3, "mask": [False, True, True]}
    batch = experience(words, words, baseline=np.array([0.25, np.nan], np.float32))
    advantage, target = remax(batch)
    np.testing.assert_allclose(advantage, [0.0, 0.75, 0.75, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(target, [0.0, 1.0, 1.0] * 2)


def test_distillation_pays_for_what_the_teacher_would_rather_say() -> None:
    batch = experience(
        {"reward": [0.0] * 3, "value": [0.0] * 3, "mask": [False, True, True], "logp": [0.0, -1.0, -2.0]}
    )
    advantage, _ = distill(batch.replace(steps={"teacher_logp": np.array([np.nan, -0.5, -4.0], np.float32)}))
    np.testing.assert_allclose(advantage, [0.0, 0.5, -2.0])


@pytest.mark.parametrize("kind", ["gae", "monte_carlo", "vtrace"])
def test_only_usual_sequences_are_credited(kind: Any) -> None:
    random = np.random.default_rng(4)
    parts = [{"reward": random.normal(size=n), "value": random.normal(size=n)} for n in (3, 4, 5)]
    batch, config = experience(*parts), AdvantageConfig(kind=kind)
    current = random.normal(size=12)
    advantage, target = compute_on_policy(batch, np.array([ON_POLICY, EXPERT, ON_POLICY]), config, current)
    own = np.r_[0:3, 7:12]
    expected = compute(batch.take([0, 2]), config, current[own])
    np.testing.assert_array_equal(advantage[own], expected[0])
    np.testing.assert_array_equal(target[own], expected[1])
    assert not advantage[3:7].any()
    assert not compute_on_policy(batch, np.full(3, EXPERT), config)[0].any()


def test_whitening_centres_and_scales_by_the_unbiased_deviation_over_the_mask() -> None:
    mask = np.array([True, True, False, True])
    found = whitened(np.array([1.0, 2.0, 99.0, 6.0], np.float32), mask)
    np.testing.assert_allclose(found, [-2 / np.sqrt(7), -1 / np.sqrt(7), 0.0, 3 / np.sqrt(7)], rtol=1e-5)
    np.testing.assert_array_equal(whitened(np.full(3, 5.0, np.float32), np.ones(3, bool)), 0.0)
    np.testing.assert_array_equal(whitened(np.array([5.0], np.float32), np.ones(1, bool)), 0.0)
