"""The adaptive order steers for its target, follows a policy that learns, and survives a resume exactly."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ludus.config.sections.tasks import AdaptiveConfig
from ludus.errors import StorageError
from ludus.tasks import evidence
from ludus.tasks.curricula import Adaptive
from ludus.tasks.evidence import Evidence

GROUP = 8


def make(rows: list[dict[str, Any]], **settings: Any) -> Adaptive:
    return Adaptive(AdaptiveConfig.model_validate({"kind": "adaptive", **settings}), rows, seed=5)


def rows_of(count: int, *, scored: bool) -> list[dict[str, Any]]:
    return [{"difficulty": i} if scored else {} for i in range(count)]


def play(
    curriculum: Adaptive, groups: range, rate: Callable[[int, int], float], *, batch: int = 8
) -> tuple[list[int], list[float]]:
    """Attempt groups in batches, as a synchronous run does; the rows chosen and the rates of success."""
    chosen: list[int] = []
    successes: list[float] = []
    for first in range(groups.start, groups.stop, batch):
        rows = [curriculum.choose(number) for number in range(first, first + batch)]
        for number, row in enumerate(rows, start=first):
            rng = np.random.default_rng([number, row])
            rewards = (rng.random(GROUP) < rate(number, row)).astype(float).tolist()
            curriculum.feedback(row, rewards)
            successes.append(sum(rewards) / GROUP)
        chosen += rows
    return chosen, successes


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("target", [0.3, 0.7])
def test_the_rate_of_success_goes_to_the_target(target: float, scored: bool) -> None:
    # Few rows between impossible and trivial: a random order would see a rate of about one half, and few mixed groups.
    count = 200
    curriculum = make(rows_of(count, scored=scored), target=target)
    _, successes = play(curriculum, range(1200), lambda number, row: sigmoid((count / 2 - row) / 8))
    assert abs(np.mean(successes[600:]) - target) < 0.12
    mixed = np.mean([0 < rate < 1 for rate in successes[600:]])
    random_mixed = np.mean(
        [1 - p**GROUP - (1 - p) ** GROUP for p in (sigmoid((100 - row) / 8) for row in range(count))]
    )
    assert mixed > 1.5 * random_mixed


def test_levels_help_where_the_set_is_larger_than_the_run() -> None:
    # 20,000 rows, 400 groups: almost none is ever met twice, so only what is known of its level can steer.
    count, target = 20_000, 0.8
    means = {}
    for scored in (True, False):
        curriculum = make(rows_of(count, scored=scored), target=target)
        _, successes = play(curriculum, range(400), lambda number, row: sigmoid((count / 2 - row) / 1000))
        means[scored] = np.mean(successes[200:])
    assert abs(means[True] - target) < 0.15
    assert abs(means[True] - target) < abs(means[False] - target)


def test_tasks_that_were_too_hard_come_back_when_the_policy_has_learnt() -> None:
    count = 100
    curriculum = make(rows_of(count, scored=True), target=0.5, half_life=100.0)

    def rate(number: int, row: int) -> float:
        skill = 20 if number < 800 else 80
        return sigmoid((skill - row) / 5)

    early, _ = play(curriculum, range(800), rate)
    late, _ = play(curriculum, range(800, 1600), rate)
    assert np.median(early[400:]) < 35
    assert np.median(late[400:]) > 60


def test_groups_in_flight_at_the_same_time_attempt_different_tasks() -> None:
    curriculum = make(rows_of(320, scored=False))
    chosen = [curriculum.choose(number) for number in range(100)]
    for first in range(0, 100, 10):
        assert len(set(chosen[first : first + 10])) == 10
    assert chosen[:10] != chosen[10:20]


def test_sets_smaller_than_the_candidates_work() -> None:
    for count in (1, 2, 33):
        curriculum = make(rows_of(count, scored=False))
        assert {curriculum.choose(number) for number in range(50)} <= set(range(count))


def test_a_choice_depends_on_beliefs_and_number_alone() -> None:
    one, other = make(rows_of(200, scored=True)), make(rows_of(200, scored=True))
    for curriculum in (one, other):
        play(curriculum, range(64), lambda number, row: row / 200)
    forwards = [one.choose(number) for number in range(64, 96)]
    assert [other.choose(number) for number in reversed(range(64, 96))] == forwards[::-1]


def test_the_state_has_the_beliefs_exactly_and_goes_through_json() -> None:
    whole, first = make(rows_of(200, scored=True)), make(rows_of(200, scored=True))
    expected, _ = play(whole, range(240), lambda number, row: row / 200)
    play(first, range(160), lambda number, row: row / 200)
    resumed = make(rows_of(200, scored=True))
    resumed.load_state(json.loads(json.dumps(first.state())))
    assert resumed.state() == first.state()
    chosen, _ = play(resumed, range(160, 240), lambda number, row: row / 200)
    assert chosen == expected[160:]
    assert resumed.state() == whole.state()


def test_rewards_count_by_their_place_between_lowest_and_highest() -> None:
    curriculum = make(rows_of(4, scored=False), lowest=-1.0, highest=1.0)
    curriculum.feedback(2, [-1.0, 0.0, 5.0, -7.0])
    successes, failures = curriculum._of_rows.at(2, 1)
    assert (successes, failures) == (1.5, 2.5)


def test_a_group_that_brought_nothing_changes_nothing() -> None:
    curriculum = make(rows_of(4, scored=False))
    before = curriculum.state()
    curriculum.feedback(1, [])
    assert curriculum.state() == before


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"groups": 1, "rows": [[4, 1.0, 1.0, 1]], "levels": []},
        {"groups": 1, "rows": [[-1, 1.0, 1.0, 1]], "levels": []},
        {"groups": 1, "rows": [[1, float("nan"), 1.0, 1]], "levels": []},
        {"groups": 1, "rows": [[1, 1.0]], "levels": []},
        {"groups": 1, "rows": [["a", 1.0, 1.0, 1]], "levels": []},
        {"groups": 1, "rows": None, "levels": []},
        {"groups": "x", "rows": [], "levels": []},
    ],
)
def test_a_state_that_cannot_be_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match="the saved beliefs about tasks cannot be read"):
        make(rows_of(4, scored=False)).load_state(state)


def test_evidence_fades_and_is_forgotten() -> None:
    seen = Evidence(half_life=10.0)
    seen.add(1, 4.0, 2.0, 0)
    assert seen.at(1, 10) == (2.0, 1.0)
    seen.add(1, 1.0, 0.0, 20)
    assert seen.at(1, 20) == (2.0, 0.5)
    for time in range(21, 200):
        seen.add(time, 1.0, 0.0, time)
    assert seen.at(1, 200) == (0.0, 0.0)
    assert len(seen) < 80


def test_evidence_is_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST", 50)
    seen = Evidence(half_life=1e9)
    for key in range(200):
        seen.add(key, 1.0, 1.0, key)
    assert [int(key) for key, *_ in seen.state()] == list(range(150, 200))
