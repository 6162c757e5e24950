"""mean@k, best@k and pass@k of attempts at held-out tasks."""

from itertools import combinations

import numpy as np
import pytest

from ludus.orchestrator.evaluation_scores import pass_at, score_attempts
from ludus.records import Episode, PolicyName, PolicyRef, Seat, Task, TaskId, episode_id


def attempt(number: int, row: int, reward: float, *, error: str = "", name: str = "held_out") -> Episode:
    seat = Seat(policy=PolicyRef(name=PolicyName("main")))
    task = Task(id=TaskId(number), game=f"tasks:{name}", seed=number, seats=(seat,), group=f"e0.{name}.{row}")
    failed = Episode.failed(episode_id("run", task.id, 0), task, error)
    return Episode(**{field: getattr(failed, field) for field in failed.__slots__} | {"returns": (reward,)})


@pytest.mark.parametrize("attempts", [1, 4, 7])
def test_pass_at_k_is_the_share_of_choices_of_k_attempts_with_a_success(attempts: int) -> None:
    for successes in range(attempts + 1):
        outcomes = [1] * successes + [0] * (attempts - successes)
        for k in range(1, attempts + 1):
            chosen = [max(some) for some in combinations(outcomes, k)]
            assert pass_at(k, successes, attempts) == pytest.approx(np.mean(chosen))


def test_means_are_over_tasks_and_a_failed_attempt_earns_nothing() -> None:
    episodes = [
        attempt(0, row=0, reward=1.0),
        attempt(1, row=0, reward=0.2),
        attempt(2, row=1, reward=0.0),
        attempt(3, row=1, reward=9.0, error="EnvError: broke"),
    ]
    scores = score_attempts(episodes, samples=2, success=1.0)
    assert scores["evaluate/held_out/mean@2"] == pytest.approx(0.3)
    assert scores["evaluate/held_out/best@2"] == pytest.approx(0.5)
    assert scores["evaluate/held_out/pass@1"] == pytest.approx(0.25)
    assert scores["evaluate/held_out/pass@2"] == pytest.approx(0.5)


def test_every_set_has_its_own_figures() -> None:
    scores = score_attempts([attempt(0, 0, 1.0), attempt(1, 0, 0.5, name="other")], samples=1, success=1.0)
    assert scores == {
        "evaluate/held_out/mean": 1.0,
        "evaluate/held_out/success": 1.0,
        "evaluate/held_out/tasks": 1.0,
        "evaluate/other/mean": 0.5,
        "evaluate/other/success": 0.0,
        "evaluate/other/tasks": 1.0,
    }
