"""Turns a run's games into tasks. A task is a pure function of (run seed, number, who plays), so any task can be made
again after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ludus.config import GameChoice
from ludus.records import Task, TaskId, derive_seed
from ludus.tasks.protocol import EvaluationPlan, SeatsFor, TaskStream, evaluation_task_id, greedy_seats, is_greedy


class GameTasks(TaskStream):
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

    def task(self, number: TaskId, seats_for: SeatsFor) -> Task:
        """One training task."""
        seed = derive_seed(self._seed, "task", number)
        if self._group == 1:
            game = self.game(number)
            return Task(id=number, game=game, seed=seed, seats=seats_for(number, game))
        group = number // self._group
        game = self.game(TaskId(group * self._group))
        seats = seats_for(TaskId(group), game)
        return Task(
            id=number,
            game=game,
            seed=seed,
            seats=greedy_seats(seats) if self._greedy and is_greedy(number, self._group) else seats,
            group=f"g{group}",
            inputs={"group_seed": derive_seed(self._seed, "group", group)},
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
                inputs=self._opening(plan, place),
            )
            for place, (index, (game, seats)) in enumerate(enumerate(plan.line_ups, first))
        ]

    def _opening(self, plan: EvaluationPlan, place: int) -> dict[str, Any]:
        number = plan.openings.get(place)
        return {} if number is None else {"group_seed": derive_seed(self._seed, "opening", number)}
