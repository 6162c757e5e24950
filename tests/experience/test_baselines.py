"""Greedy attempts: told from the others, never refused on their own, and gone from what is trained on."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.config import ExperienceConfig
from ludus.experience import Filters, are_greedy, build_filters, mark_greedy, with_baselines
from ludus.records import Episode, EpisodeId, Experiences, PolicyName, PolicyRef, Seat, Task, TaskId, join
from ludus.testing.experiences import sample_experiences

MAIN = PolicyRef(name=PolicyName("main"))


def groups_of_three(rewards: list[float], *, seats: list[int] | None = None) -> Experiences:
    """Groups of two sampled attempts and a greedy one."""
    count = len(rewards)
    rows = sample_experiences([2] * count, rewards=rewards, tokens=True, seats=seats)
    names = np.array([f"g{task // 3}" for task in range(count)], object)
    return rows.replace(sequences={"group": names, "greedy": np.arange(count) % 3 == 2})


def make_filters(*operators: dict[str, object]) -> Filters:
    return build_filters(ExperienceConfig.model_validate({"operators": list(operators)}))


def test_rows_are_marked_by_who_sat_in_their_seats() -> None:
    seats = (Seat(policy=MAIN, learns=True, greedy=True), Seat(policy=MAIN, learns=True))
    task = Task(id=TaskId(0), game="game", seed=0, seats=seats)
    rows = sample_experiences([1, 1], tasks=[0, 0], seats=[0, 1])
    marked = mark_greedy(rows, [Episode.failed(EpisodeId("episode-0"), task, "")])
    assert marked.sequences["greedy"].tolist() == [True, False]
    assert not are_greedy(rows).any()


def test_each_row_gets_what_the_greedy_one_of_its_group_got() -> None:
    found = with_baselines(groups_of_three([1, 2, 3, 4, 5, 6]))
    assert found.sequences["task"].tolist() == [0, 1, 3, 4]
    assert found.sequences["baseline"].tolist() == [3, 3, 6, 6]
    assert found.sequences["baseline"].dtype == np.float32


def test_a_group_without_its_greedy_attempt_has_no_baseline() -> None:
    rows = groups_of_three([1, 2, 3, 4, 5, 6]).take([0, 1, 3, 4, 5])
    assert np.isnan(with_baselines(rows).sequences["baseline"]).tolist() == [True, True, False, False]


def test_seats_have_baselines_of_their_own() -> None:
    rows = groups_of_three([1, 2, 3])
    other = groups_of_three([-1, -2, -3], seats=[1, 1, 1])
    assert with_baselines(join([rows, other])).sequences["baseline"].tolist() == [3, 3, -3, -3]


def test_of_a_greedy_attempt_in_several_rows_the_mean_counts() -> None:
    rows = groups_of_three([1, 2, 3]).replace(sequences={"turn": np.zeros(3, np.int64)})
    second = rows.take([2]).replace(sequences={"turn": np.ones(1, np.int64)}, steps={"reward": np.array([0, 5], "f4")})
    assert with_baselines(join([rows, second])).sequences["baseline"].tolist() == [4, 4]


def test_the_rewards_count_as_operators_and_transforms_left_them() -> None:
    kept = make_filters({"kind": "shape", "scale": 10.0}).apply(groups_of_three([1, 2, 3])).kept
    assert with_baselines(kept).sequences["baseline"].tolist() == [30, 30]


def test_what_experts_did_is_left_alone() -> None:
    rows = groups_of_three([1, 2, 3]).replace(
        sequences={"source": np.array(["on_policy", "on_policy", "expert"], object)}
    )
    found = with_baselines(rows)
    assert found.sequences["task"].tolist() == [0, 1, 2]
    assert np.isnan(found.sequences["baseline"]).all()


def test_rows_that_know_of_no_greedy_attempts_stay_as_they_are() -> None:
    rows = sample_experiences(tokens=True)
    assert with_baselines(rows) is rows


@pytest.mark.parametrize("operator", [{"kind": "reward_range", "high": 2}, {"kind": "validity", "max_length": 1}])
def test_no_operator_takes_the_baseline_away(operator: dict[str, object]) -> None:
    rows = groups_of_three([1, 2, 3])
    if operator["kind"] == "validity":
        longer = sample_experiences([4], tasks=[2], rewards=[3], tokens=True)
        rows = join(
            [rows.take([0, 1]), longer.replace(sequences={n: rows.sequences[n][2:] for n in ("group", "greedy")})]
        )
    filtered = make_filters(operator).apply(rows)
    assert with_baselines(filtered.kept).sequences["baseline"].tolist() == [3, 3]
    assert not len(filtered.refused)


def test_a_greedy_attempt_goes_with_the_last_that_it_is_compared_with() -> None:
    filtered = make_filters({"kind": "reward_range", "high": 2}, {"kind": "zero_variance"}).apply(
        groups_of_three([3, 4, 1, 2, 2, 2, 2, 2, 1])
    )
    reasons = dict(zip(filtered.refused.sequences["task"].tolist(), filtered.refused.sequences["reason"], strict=True))
    assert reasons == {
        0: "reward_range", 1: "reward_range", 2: "zero_variance",
        3: "zero_variance", 4: "zero_variance", 5: "zero_variance",
    }  # fmt: skip
    assert filtered.kept.sequences["task"].tolist() == [6, 7, 8], "two equal attempts differ from the greedy one"
    alone = Filters().apply(groups_of_three([1, 2, 3]).take([2]))
    assert alone.refused.sequences["reason"].tolist() == ["greedy_alone"]
    assert not len(alone.kept)
