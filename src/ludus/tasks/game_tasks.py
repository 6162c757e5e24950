"""Turns a run's games into tasks. A task is a pure function of (run seed, number, who plays), so any task can be made
again after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ludus.config import GameChoice
from ludus.records import Task, TaskId, derive_seed
from ludus.tasks.greedy_attempts import greedy_seats, is_greedy
from ludus.tasks.protocol import EvaluationPlan, LearnsNothing, SeatsFor, evaluation_task_id


class GameTasks(LearnsNothing):
    """Games by weight, each task with a line-up of its own."""

    def __init__(self, games: Sequence[GameChoice], seed: int, group: int = 1, *, greedy: bool = False) -> None:
        """`group` tasks that follow each other begin alike: same game, same chance, same line-up.

        With `greedy`, the learning seats of the last of them are to take the likeliest action.
        """
        self._group = group
        self._greedy = greedy
        self._keys = [game.key for game in games]
        weights = np.array([game.weight for game in games], np.float64)
        self._cumulative = np.cumsum(weights / weights.sum())
        self._seed = seed

    def game(self, task: TaskId) -> str:
        """Which game a training task is: by weight, decided by the task's number alone."""
        if len(self._keys) == 1:
            return self._keys[0]
        draw = (derive_seed(self._seed, "game", task) % 2**32) / 2**32
        return self._keys[min(int(np.searchsorted(self._cumulative, draw, side="right")), len(self._keys) - 1)]

    def training(self, first: int, count: int, seats_for: SeatsFor) -> list[Task]:
        """Tasks `[first, first + count)`."""
        return [self._training(TaskId(number), seats_for) for number in range(first, first + count)]

    def _training(self, task: TaskId, seats_for: SeatsFor) -> Task:
        seed = derive_seed(self._seed, "task", task)
        if self._group == 1:
            game = self.game(task)
            return Task(id=task, game=game, seed=seed, seats=seats_for(task, game))
        number, first = task // self._group, TaskId(task - task % self._group)
        game = self.game(first)
        seats = seats_for(TaskId(number), game)
        return Task(
            id=task,
            game=game,
            seed=seed,
            seats=greedy_seats(seats) if self._greedy and is_greedy(task, self._group) else seats,
            group=f"g{number}",
            inputs={"group_seed": derive_seed(self._seed, "group", number)},
        )

    def evaluation(self, job: int, plan: EvaluationPlan, *, first: int = 0) -> list[Task]:
        """The tasks of the `job`-th evaluation, one for each line-up."""
        return [
            Task(
                id=evaluation_task_id(job, index),
                purpose="evaluate",
                game=game,
                seed=derive_seed(self._seed, "evaluate", job, index),
                seats=seats,
            )
            for index, (game, seats) in enumerate(plan.line_ups, first)
        ]
