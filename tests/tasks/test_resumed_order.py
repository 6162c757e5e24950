"""Killed at any moment and resumed, a run with an adaptive order attempts the same tasks as one that was not.

A small model of the run: a checkpoint, a log of episodes that is never lost, and processes that can die between any two
steps. Success follows from (row, task) alone, so two runs can be compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from ludus.config import TasksetConfig
from ludus.records import Episode, EpisodeId, PolicyName, PolicyRef, Seat, Task, TaskId, derive_seed
from ludus.tasks import Taskset, TasksetTasks, load_taskset

GROUP, GROUPS_PER_UPDATE, UPDATES = 4, 6, 12
BATCH = GROUP * GROUPS_PER_UPDATE
SEATS = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)


class Killed(Exception):
    """The process died."""


@pytest.fixture(scope="module")
def tasksets() -> list[Taskset]:
    sums = {"path": "ludus/arithmetic?digits=1&ops=+-", "order": {"kind": "adaptive", "half_life": 20.0}}
    products = {"path": "ludus/arithmetic?digits=1&ops=*", "name": "products", "order": "shuffle", "weight": 0.5}
    return [load_taskset(TasksetConfig.model_validate(settings)) for settings in (sums, products)]


def play(task: Task) -> Episode:
    draw = derive_seed(task.seed, "luck") / 2**63
    failed = derive_seed(task.seed, "failure") % 29 == 0
    reward = float(draw < 1 / (1 + task.inputs["row"] % 5))
    error = "EnvError: it broke" if failed else ""
    return replace(Episode.failed(EpisodeId(str(task.id)), task, error), returns=(reward,))


def _game(tasksets: list[Taskset], task: int) -> str:
    """Of which set a task is: of its number alone."""
    return TasksetTasks(tasksets, seed=11, group=GROUP).training(task, 1, seats_for)[0].game


def seats_for(task: TaskId, game: str) -> tuple[Seat, ...]:
    return SEATS


@dataclass
class Disk:
    """What survives a kill."""

    log: dict[int, Episode] = field(default_factory=dict)
    rows: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Experience, by task: which row it is of, and its reward. Asynchronous runs write it before the episode."""
    checkpoint: str = ""
    chosen_when_saved: dict[int, int] = field(default_factory=dict)
    """For the test to look at: rows of the groups that were in flight at the checkpoint."""

    def has(self, task: int) -> bool:
        """Whether a task need not be played again."""
        return task in self.log or task in self.rows

    def save(self, tasks: TasksetTasks, **more: Any) -> None:
        self.checkpoint = json.dumps({"tasks": tasks.state(), **more})

    def begin(self, tasksets: list[Taskset]) -> tuple[TasksetTasks, dict[str, Any]]:
        tasks = TasksetTasks(tasksets, seed=11, group=GROUP)
        saved = json.loads(self.checkpoint) if self.checkpoint else {}
        if saved:
            tasks.load_state(saved["tasks"])
        tasks.absorb(self.log.values())
        return tasks, saved


def mortal(rng: random.Random, chance: float) -> Iterator[None]:
    """Die now and then."""
    while True:
        if rng.random() < chance:
            raise Killed
        yield


def synchronous(disk: Disk, tasksets: list[Taskset], rng: random.Random, chance: float, every: int) -> TasksetTasks:
    """Play each update's tasks, in whatever order they finish; settle; now and then a checkpoint."""
    tasks, saved = disk.begin(tasksets)
    step = mortal(rng, chance)
    for update in range(saved.get("update", 0), UPDATES):
        first = update * BATCH
        missing = [number for number in range(first, first + BATCH) if number not in disk.log]
        made = [tasks.training(number, 1, seats_for)[0] for number in missing]
        rng.shuffle(made)
        for task in made:
            next(step)
            disk.log[task.id] = play(task)
            tasks.absorb([disk.log[task.id]])
        next(step)
        tasks.settle(before=first + BATCH)
        if (update + 1) % every == 0:
            disk.save(tasks, update=update + 1)
    return tasks


def run_synchronous(tasksets: list[Taskset], seed: int, chance: float, every: int) -> tuple[Disk, TasksetTasks, int]:
    disk, rng, kills = Disk(), random.Random(seed), 0
    while True:
        try:
            return disk, synchronous(disk, tasksets, rng, chance, every), kills
        except Killed:
            kills += 1


@pytest.mark.parametrize("every", [1, 3])
def test_a_synchronous_run_killed_anywhere_attempts_the_same_tasks(tasksets: list[Taskset], every: int) -> None:
    unbroken, calm, _ = run_synchronous(tasksets, seed=0, chance=0.0, every=every)
    kills = 0
    for seed in range(8):
        disk, tasks, died = run_synchronous(tasksets, seed=seed, chance=0.02, every=every)
        kills += died
        assert {number: episode.task for number, episode in disk.log.items()} == {
            number: episode.task for number, episode in unbroken.log.items()
        }
        assert tasks.state() == calm.state()
    assert kills >= 40
    rows = [unbroken.log[number].task.inputs["row"] for number in range(0, UPDATES * BATCH, GROUP)]
    assert len(set(rows)) > 20


def asynchronous(disk: Disk, tasksets: list[Taskset], rng: random.Random, chance: float) -> TasksetTasks:
    """Keep tasks in flight, finish them in any order, and settle right before each checkpoint."""
    tasks, saved = disk.begin(tasksets)
    tasks.absorb_rewards({number: reward for number, (_, reward) in disk.rows.items() if number not in disk.log})
    step = mortal(rng, chance)
    number, end = saved.get("next_task", 0), UPDATES * BATCH
    in_flight = [tasks.training(task, 1, seats_for)[0] for task in range(number) if not disk.has(task)]
    for task in in_flight:
        assert disk.chosen_when_saved.get(task.id // GROUP, task.inputs["row"]) == task.inputs["row"]
    while number < end or in_flight:
        if number < end and len(in_flight) < 2 * BATCH and rng.random() < 0.6:
            if not disk.has(number):
                in_flight += tasks.training(number, 1, seats_for)
            number += 1
            continue
        if in_flight:
            episode = play(in_flight.pop(rng.randrange(len(in_flight))))
            next(step)
            if not episode.error:
                disk.rows[episode.task.id] = (episode.task.inputs["row"], episode.returns[0])
            next(step)
            disk.log[episode.task.id] = episode
            tasks.absorb([episode])
        if rng.random() < 0.05:
            tasks.settle()
            disk.save(tasks, next_task=number)
            disk.chosen_when_saved = {task.id // GROUP: task.inputs["row"] for task in in_flight}
    tasks.settle()
    return tasks


def test_an_asynchronous_run_killed_anywhere_keeps_each_groups_task_and_counts_each_group_once(
    tasksets: list[Taskset],
) -> None:
    kills = orphans = 0
    for seed in range(12):
        disk, rng = Disk(), random.Random(seed)
        while True:
            try:
                tasks = asynchronous(disk, tasksets, rng, 0.02)
                break
            except Killed:
                kills += 1
        assert all(map(disk.has, range(UPDATES * BATCH)))
        orphans += len(disk.rows.keys() - disk.log.keys())
        state = tasks.state()
        assert state["groups"] == {"open": [], "settled_before": UPDATES * GROUPS_PER_UPDATE, "settled": []}
        learnt = 0
        for group in range(UPDATES * GROUPS_PER_UPDATE):
            numbers = range(group * GROUP, (group + 1) * GROUP)
            episodes = [disk.log[number] for number in numbers if number in disk.log]
            rows = {disk.rows[number][0] for number in numbers if number in disk.rows}
            assert len(rows | {episode.task.inputs["row"] for episode in episodes}) == 1
            learnt += bool(rows) and _game(tasksets, numbers[0]) == "tasks:arithmetic"
        assert state["orders"]["arithmetic"]["groups"] == learnt
    assert kills >= 60
    assert orphans >= 10
