"""Makes the training tasks of a run and has them played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import nan

from ludus.games.protocol import GameSpec
from ludus.league import Matchmaker
from ludus.orchestrator.explorers import Explorers
from ludus.orchestrator.progress import Progress
from ludus.records import Seat, Task, TaskId
from ludus.sources.done_tasks import DoneTasks
from ludus.tasks import TaskStream


class TaskIssuer:
    """Training tasks are numbered; a task is a pure function of its number and its line-up."""

    def __init__(
        self,
        tasks: TaskStream,
        matchmaker: Matchmaker,
        specs: Mapping[str, GameSpec],
        explorers: Explorers,
        progress: Progress,
        done: DoneTasks,
    ) -> None:
        self.tasks = tasks
        self.explorers = explorers
        self._matchmaker = matchmaker
        self._specs = specs
        self._progress = progress
        self._done = done

    def issue(self, count: int) -> list[Task]:
        """Have the next tasks played, but for those that are in the log already; returns those that are not."""
        first, self._progress.next_task = self._progress.next_task, self._progress.next_task + count
        return self.submit(self._done.missing(first, self._progress.next_task))

    def submit(self, numbers: Iterable[int]) -> list[Task]:
        """Have tasks played with the line-ups that the league gives them now."""
        made = [self.tasks.task(TaskId(number), self._seats_for) for number in numbers]
        self.explorers.submit(made)
        return made

    def submit_again(self, lineups: Mapping[TaskId, tuple[Seat, ...]]) -> None:
        """Have tasks played with line-ups that were decided before."""
        missing = [(task, lineup) for task, lineup in lineups.items() if task not in self._done]
        self.explorers.submit([self.tasks.task(task, lambda *_, lineup=lineup: lineup) for task, lineup in missing])

    def give_up(self, tasks: Sequence[int]) -> None:
        """These tasks are over without a result: nobody plays them any more, and orders learn nothing from them."""
        if tasks:
            self.explorers.give_up(tasks)
            if self.tasks.learns:
                self.tasks.absorb_rewards(dict.fromkeys(tasks, nan))
            self._done.add(tasks)

    def _seats_for(self, task: TaskId, game: str) -> tuple[Seat, ...]:
        return self._matchmaker.seats_for(task, self._specs[game])
