"""How games of teams are seated and measured."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.config import EvaluateConfig, GameChoice, LeagueConfig
from ludus.games.protocol import GameSpec
from ludus.league import Pool
from ludus.orchestrator.evaluation import Evaluation
from ludus.records import Episode, PolicyName, PolicyRef, PolicyVersion, Task, episode_id
from ludus.tasks import GameTasks

MAIN = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))


def evaluation(*teams: int, has_chance: bool = True) -> Evaluation:
    spec = GameSpec(
        key="g",
        players=len(teams),
        actions=2,
        observation_shape=(1,),
        max_length=9,
        is_zero_sum=False,
        has_chance=has_chance,
        teams=teams,
        teams_share_rewards=False,
    )
    pool = Pool(LeagueConfig(), MAIN)
    pool.add_fixed("random")
    pool.add_snapshot(MAIN, 0)
    config = EvaluateConfig(games=4, pool_opponents=0)
    return Evaluation(config, GameTasks([GameChoice(key="g")], seed=0), pool, {"g": spec})


def played(task: Task, returns: tuple[float, ...]) -> Episode:
    nothing = np.zeros(0, np.int32)
    return Episode(
        id=episode_id("run", task.id, 0),
        task=task,
        returns=returns,
        move_plies=nothing,
        move_seats=nothing.astype(np.int16),
        move_actions=nothing,
    )


def test_one_team_plays_by_itself_and_is_measured_by_its_mean_return() -> None:
    judge = evaluation(0, 0, 0)
    judge.issue(MAIN, step=0, is_final=False)
    tasks = judge.pending_tasks()
    assert len(tasks) == 4
    assert all({seat.policy for seat in task.seats} == {MAIN} for task in tasks)
    assert all(seat.greedy for task in tasks for seat in task.seats)
    judge.absorb([played(task, (1.0, 2.0, 3.0 * number)) for number, task in enumerate(tasks)])
    assert judge.settle()["evaluate/return"] == pytest.approx((1 + 2 + 4.5) / 3)


def test_without_chance_a_team_that_plays_by_itself_samples() -> None:
    judge = evaluation(0, 0, has_chance=False)
    judge.issue(MAIN, step=0, is_final=False)
    assert not any(seat.greedy for task in judge.pending_tasks() for seat in task.seats)


def test_two_teams_sit_together_and_take_both_sides_in_turn() -> None:
    judge = evaluation(0, 0, 0, 1)
    judge.issue(MAIN, step=0, is_final=False)
    tasks = judge.pending_tasks()
    lineups = [[str(seat.policy.name) for seat in task.seats] for task in tasks]
    assert lineups[:3] == [["main", "main", "main", "random"]] * 3
    assert lineups[3] == ["random", "random", "random", "main"]
    judge.absorb([played(task, (1.0, 1.0, 1.0, -5.0)) for task in tasks])
    metrics = judge.settle()
    assert metrics["evaluate/random/return"] == pytest.approx((3 * 1.0 - 5.0) / 4)
    assert metrics["evaluate/random/score"] == pytest.approx(3 / 4)
