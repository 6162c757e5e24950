"""What makes a run's tasks, whatever they are made from: games, tasksets, or both.

Invariant: training tasks are numbered 0, 1, 2, ..., and a task follows from its number and the state, so that any of
them can be made again after a crash. Evaluation tasks are numbered from `FIRST_EVALUATION_TASK` on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from ludus.errors import ConfigError
from ludus.records import Episode, Seat, Task, TaskId

FIRST_EVALUATION_TASK = 2**40
"""No run gets that far with training tasks."""
EVALUATION_STRIDE = 2**20
"""Room for that many tasks in one evaluation."""

SeatsFor = Callable[[TaskId, str], tuple[Seat, ...]]
LineUp = tuple[str, tuple[Seat, ...]]
"""A game, and who sits where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """What one evaluation consists of. A stream takes the part that is its own."""

    line_ups: Sequence[LineUp] = ()
    """The games to play."""
    openings: Mapping[int, int] = field(default_factory=dict)
    """By place in `line_ups`: the number of what chance brings there. Games of one number begin alike, in this and in
    every other evaluation; all others have chance of their own."""
    attempts: tuple[Seat, ...] = ()
    """Who attempts each of the held-out tasks, one after the other; nobody when empty."""
    samples: int = 1
    """Attempts of each of them."""


class TaskStream(Protocol):
    """Makes tasks, and may learn from how they went. As it stands, tasks follow from their numbers alone."""

    learns: bool = False
    """Whether it does; if not, `absorb` and `absorb_rewards` need not be called."""

    @abstractmethod
    def task(self, number: TaskId, seats_for: SeatsFor) -> Task:
        """One training task."""

    def training(self, first: int, count: int, seats_for: SeatsFor) -> list[Task]:
        """Training tasks `[first, first + count)`."""
        return [self.task(TaskId(number), seats_for) for number in range(first, first + count)]

    @abstractmethod
    def evaluation(self, job: int, plan: EvaluationPlan, *, first: int = 0) -> list[Task]:
        """The tasks of the `job`-th evaluation, counted from `first` on."""

    def absorb(self, episodes: Iterable[Episode]) -> None:
        """Note training episodes that came back or were found in the log, in any order and any number of times."""
        return

    def absorb_rewards(self, rewards: Mapping[int, float]) -> None:
        """After a resume: note training tasks, by number, whose experience is in the log and whose episode is not."""
        return

    def settle(self, before: int | None = None) -> None:
        """Learn from what is complete. `before`: only from tasks below this one."""
        return

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned. Raises ConfigError if the tasks are not those of the checkpoint."""
        return


def evaluation_task_id(job: int, index: int) -> TaskId:
    """The number of one task of an evaluation. Raises ConfigError if it would be a number of the next evaluation."""
    if index >= EVALUATION_STRIDE:
        raise ConfigError(f"an evaluation of more than {EVALUATION_STRIDE:,} games and attempts is too large")
    return TaskId(FIRST_EVALUATION_TASK + job * EVALUATION_STRIDE + index)


def is_greedy(task: int, group: int) -> bool:
    """Whether a task is the greedy attempt of its group of so many (the advantage `remax`): always the last."""
    return task % group == group - 1


def greedy_seats(seats: tuple[Seat, ...]) -> tuple[Seat, ...]:
    """The same line-up with the likeliest action in the seats that learn."""
    return tuple(replace(seat, greedy=True) if seat.learns else seat for seat in seats)
