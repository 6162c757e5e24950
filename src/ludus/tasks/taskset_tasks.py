"""Turns a run's tasksets into tasks, and learns from how the attempts went.

Invariant: which row a group attempts is decided once. With an order that learns nothing it follows from (run seed,
group) alone; with one that adapts, from the beliefs at the last `settle`, and it is kept in the state until the group
is settled. So a run that calls `settle` at fixed places makes the same tasks however often it was killed:

    synchronous    settle(before=first task of the next update), when an update's tasks have all come back
    asynchronous   settle(), right before state() at each checkpoint: what is chosen in between can be chosen again

After a resume: `load_state`, then `absorb` the episodes that are in the log (and `absorb_rewards` of those of which
only the experience is there and that are not played again), then make the tasks that are missing. `absorb` takes every
episode, failed ones too; a group that never comes back whole is never settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ludus.errors import ConfigError, StorageError
from ludus.records import Episode, Task, TaskId, derive_seed
from ludus.tasks.curricula import Curriculum, make_curriculum
from ludus.tasks.mixed_tasks import Mixture
from ludus.tasks.protocol import EvaluationPlan, SeatsFor, TaskStream, evaluation_task_id, greedy_seats, is_greedy
from ludus.tasks.taskset import Taskset


@dataclass(slots=True, kw_only=True)
class OpenGroup:
    """A group that was chosen and is not settled."""

    taskset: str
    row: int
    rewards: dict[int, float | None] = field(default_factory=dict)
    """By attempt; None for one that failed."""


class GroupLedger:
    """Groups that are not settled yet, by number, `size` attempts each: which row each attempts, and what came back.

    A group keeps the row that was chosen for it until it is settled, through any number of resumes; each of its
    attempts counts once, however often it is noted; and a settled group is never opened again. Memory and state hold
    only the groups between the oldest unsettled and the newest one.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._open: dict[int, OpenGroup] = {}
        self._settled_before = 0
        self._settled: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def find(self, group: int) -> OpenGroup | None:
        """A group that is open; None for one that was never chosen. Raises StorageError if it is settled."""
        if self.is_settled(group):
            raise StorageError(f"group g{group} is settled already; its tasks cannot be made again")
        return self._open.get(group)

    def is_settled(self, group: int) -> bool:
        """Whether a group is over."""
        return group < self._settled_before or group in self._settled

    def open(self, group: int, taskset: str, row: int) -> None:
        """Remember which row a group attempts."""
        known = self.find(group)
        if known is not None and (known.taskset, known.row) != (taskset, row):
            raise StorageError(
                f"group g{group}: row {known.row} of {known.taskset} was chosen, but row {row} of {taskset} attempted"
            )
        if known is None:
            self._open[group] = OpenGroup(taskset=taskset, row=row)

    def note(self, group: int, attempt: int, reward: float | None) -> None:
        """Note what one attempt at an open group brought."""
        self._open[group].rewards[attempt] = reward

    def settle(self, before: int | None = None) -> list[OpenGroup]:
        """Close the groups that are complete, in order of their numbers, and give them back.

        Args:
            before: Leave groups from this number on as they are.
        """
        complete = [
            group
            for group in sorted(self._open)
            if len(self._open[group].rewards) == self._size and (before is None or group < before)
        ]
        self._settled.update(complete)
        while self._settled_before in self._settled:
            self._settled.remove(self._settled_before)
            self._settled_before += 1
        return [self._open.pop(group) for group in complete]

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint."""
        opened = [
            [number, group.taskset, group.row, sorted(group.rewards.items())] for number, group in self._open.items()
        ]
        return {"open": sorted(opened), "settled_before": self._settled_before, "settled": sorted(self._settled)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._settled_before = int(state["settled_before"])
        self._settled = set(map(int, state["settled"]))
        self._open = {
            int(number): OpenGroup(taskset=str(taskset), row=int(row), rewards=dict(map(tuple, rewards)))
            for number, taskset, row, rewards in state["open"]
        }


class TasksetTasks(TaskStream):
    """Training tasks are numbered 0, 1, 2, ...; `group` of them that follow each other attempt the same row."""

    def __init__(
        self,
        tasksets: Sequence[Taskset],
        seed: int,
        group: int = 1,
        *,
        held_out: Sequence[Taskset] = (),
        greedy: bool = False,
    ) -> None:
        """`held_out` are for evaluation only; those that are trained on can be evaluated on, too.

        With `greedy`, the last attempt of each group is to take the likeliest tokens; orders do not learn from it.
        """
        self._sets = {taskset.name: taskset for taskset in (*tasksets, *held_out)}
        if len(self._sets) < len(tasksets) + len(held_out):
            raise ConfigError("tasks: two tasksets have the same name; give one of them another")
        self._names = [taskset.name for taskset in tasksets]
        self._held_out = [taskset.name for taskset in held_out]
        self._seed = seed
        self._group = group
        self._greedy = greedy
        self._mixture = Mixture([taskset.config.weight for taskset in tasksets], seed)
        self._curricula = {taskset.name: self._curriculum(taskset) for taskset in tasksets}
        self._ledger = GroupLedger(group)
        self.learns = any(curriculum.adapts for curriculum in self._curricula.values())

    def _curriculum(self, taskset: Taskset) -> Curriculum:
        try:
            return make_curriculum(taskset.config.order, taskset.rows, derive_seed(self._seed, "tasks", taskset.name))
        except ConfigError as error:
            raise ConfigError(*(f"taskset {taskset.name}: {problem}" for problem in error.problems)) from error

    # -- tasks -----------------------------------------------------------------------------------------------------

    def task(self, number: TaskId, seats_for: SeatsFor) -> Task:
        """One training task."""
        group = number // self._group
        taskset, row = self._choice(group)
        seats = seats_for(TaskId(group), taskset.game)
        return Task(
            id=number,
            game=taskset.game,
            seed=derive_seed(self._seed, "task", number),
            seats=greedy_seats(seats) if self._is_greedy(number) else seats,
            group=f"g{group}",
            inputs=_inputs(taskset, row, derive_seed(self._seed, "group", group)),
        )

    def _is_greedy(self, task: int) -> bool:
        return self._greedy and is_greedy(task, self._group)

    def _choice(self, group: int) -> tuple[Taskset, int]:
        known = self._ledger.find(group) if self.learns else None
        if known is not None:
            return self._sets[known.taskset], known.row
        index, number = self._mixture.place(group)
        name = self._names[index]
        row = self._curricula[name].choose(number)
        if not 0 <= row < len(self._sets[name]):
            raise ConfigError(f"taskset {name}: its order chose row {row} of {len(self._sets[name])}")
        if self.learns:
            self._ledger.open(group, name, row)
        return self._sets[name], row

    def evaluation(self, job: int, plan: EvaluationPlan, *, first: int = 0) -> list[Task]:
        """The tasks of the `job`-th evaluation: every held-out row `plan.samples` times, a group for each row."""
        rows = [(self._sets[name], row) for name in self._held_out for row in range(len(self._sets[name]))]
        wanted = [(seat, *each) for seat in plan.attempts for each in rows for _ in range(plan.samples)]
        return [
            Task(
                id=evaluation_task_id(job, index),
                purpose="evaluate",
                game=taskset.game,
                seed=derive_seed(self._seed, "evaluate", job, index),
                seats=(seat,),
                group=f"e{job}.{taskset.name}.{row}",
                inputs=_inputs(taskset, row, derive_seed(self._seed, "evaluation row", taskset.name, row)),
            )
            for index, (seat, taskset, row) in enumerate(wanted, first)
        ]

    # -- feedback --------------------------------------------------------------------------------------------------

    def absorb(self, episodes: Iterable[Episode]) -> None:
        """Note training episodes that came back or were found in the log, in any order and as often as one likes."""
        for episode in episodes:
            group, attempt = divmod(episode.task.id, self._group)
            if self.learns and episode.task.purpose == "train" and not self._ledger.is_settled(group):
                self._ledger.open(group, episode.task.game.partition(":")[2], int(episode.task.inputs["row"]))
                self._ledger.note(group, attempt, _reward(episode))

    def absorb_rewards(self, rewards: Mapping[int, float]) -> None:
        """After a resume: note training tasks, by number, whose experience is in the log and whose episode is not."""
        for task, reward in rewards.items():
            group, attempt = divmod(task, self._group)
            if self.learns and not self._ledger.is_settled(group):
                self._choice(group)
                self._ledger.note(group, attempt, reward if isfinite(reward) else None)

    def settle(self, before: int | None = None) -> None:
        """Let the orders learn from groups that are complete. `before`: only from those of tasks below this one."""
        for group in self._ledger.settle(None if before is None else before // self._group):
            rewards = [group.rewards[attempt] for attempt in sorted(group.rewards) if not self._is_greedy(attempt)]
            self._curricula[group.taskset].feedback(group.row, [value for value in rewards if value is not None])

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint: which sets these are, what their orders learnt, and the groups that are open."""
        return {
            "sets": [self._identity(name) for name in self._names],
            "orders": {name: curriculum.state() for name, curriculum in self._curricula.items()},
            "groups": self._ledger.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned. Raises ConfigError if a taskset is not what it was."""
        was, now = list(state["sets"]), [self._identity(name) for name in self._names]
        if was != now:
            changed = [f"{new['name']} (now {new['rows']} rows)" for new in now if new not in was]
            raise ConfigError(
                f"tasks: the checkpoint is of other tasksets than these: {', '.join(changed) or 'one is missing'}; "
                "bring the files back as they were, or start a new run"
            )
        for name, curriculum in self._curricula.items():
            curriculum.load_state(state["orders"][name])
        try:
            self._ledger.load_state(state["groups"])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"the saved groups of tasks cannot be read: {error!r}") from error

    def _identity(self, name: str) -> dict[str, Any]:
        taskset = self._sets[name]
        rows, weight = len(taskset), taskset.config.weight
        return {"name": name, "rows": rows, "weight": weight, "fingerprint": taskset.fingerprint}


def _inputs(taskset: Taskset, row: int, group_seed: int) -> dict[str, Any]:
    return {**taskset.rows[row], "row": row, "group_seed": group_seed}


def _reward(episode: Episode) -> float | None:
    """What the learning seat got; None when the episode says nothing about the task."""
    if episode.error:
        return None
    learning = [seat for seat, who in enumerate(episode.task.seats) if who.learns] or [0]
    reward = episode.returns[learning[0]] if len(episode.returns) > learning[0] else float("nan")
    return reward if isfinite(reward) else None
