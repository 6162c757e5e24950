"""Attempts of which some never end by themselves, and a game of which some are very long."""

import asyncio
from pathlib import Path

import numpy as np

from ludus import GameSpec, register_game
from ludus.records import Task
from ludus.workflows import Outcome, RolloutModel, register_workflow

GROUP = 4


def straggles(task: Task) -> bool:
    """The third attempt of one group in four."""
    return task.id // GROUP % 4 == 1 and task.id % GROUP == 2


async def attempt(task: Task, model: RolloutModel) -> Outcome:
    reply = await model.complete([{"role": "user", "content": task.inputs["prompt"]}])
    return Outcome(response=reply, reward=float(task.id % 2))


async def talks_on(task: Task, model: RolloutModel) -> Outcome:
    """Some go on asking for replies."""
    while straggles(task):
        await attempt(task, model)
    return await attempt(task, model)


async def waits(task: Task, model: RolloutModel, folder: str) -> Outcome:
    """Some wait for a tool that never answers, and note in a folder when they are cancelled."""
    made = await attempt(task, model)
    if straggles(task):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            (Path(folder) / str(task.id)).mkdir(parents=True)
            raise
    return made


class Endless:
    """Two players in turn count up. One game in four goes on and on; the others end after 4 to 7 moves."""

    def __init__(self) -> None:
        self.spec = GameSpec(
            key="endless", players=2, actions=2, observation_shape=(3,), max_length=10_000, is_zero_sum=True
        )

    def start(self, seed: int) -> "Counting":
        return Counting(10_000 if seed % 4 == 0 else 4 + seed // 4 % 4)


class Counting:
    def __init__(self, length: int) -> None:
        self.length, self.moves, self.score = length, 0, 0

    def acting(self) -> tuple[int, ...]:
        return () if self.moves >= self.length else (self.moves % 2,)

    def legal(self, seat: int) -> list[int]:
        return [0, 1]

    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = [self.moves % 7, seat, min(self.length, 9)]

    def act(self, actions: dict[int, int]) -> None:
        self.score += sum(actions.values()) * (1 if self.moves % 2 else -1)
        self.moves += 1

    def returns(self) -> list[float]:
        score = float(np.sign(self.score)) if not self.acting() else 0.0
        return [score, -score]

    def text(self, seat: int | None = None) -> str:
        return f"{self.moves} moves"

    def action_text(self, seat: int, action: int) -> str:
        return str(action)


register_game("endless", Endless)
register_workflow("talks_on", talks_on)
register_workflow("waits", waits)
