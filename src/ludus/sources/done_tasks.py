"""Which training tasks are finished: all below a mark, and some above it; and what the logs of a run say of that."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.compute as pc

from ludus.sources.feed import FIRST_TASK
from ludus.storage.arrow import episodes_from_table
from ludus.storage.segments import SegmentLog
from ludus.tasks import TaskStream


class DoneTasks:
    """A set of task numbers that grows mostly in order, kept small."""

    def __init__(self, before: int = 0, above: Iterable[int] = ()) -> None:
        self.reset(before, above)

    def reset(self, before: int, above: Iterable[int]) -> None:
        """Every task below `before` is done, and these above it."""
        self.before = before
        self._above: set[int] = set()
        self.add(above)

    @property
    def above(self) -> list[int]:
        """The tasks above the mark that are done, in order."""
        return sorted(self._above)

    def add(self, tasks: Iterable[int]) -> None:
        """These tasks are done, too."""
        self._above.update(task for task in tasks if task >= self.before)
        while self.before in self._above:
            self._above.remove(self.before)
            self.before += 1

    def __contains__(self, task: int) -> bool:
        return task < self.before or task in self._above

    def missing(self, first: int, end: int) -> list[int]:
        """Tasks of `[first, end)` that are not done."""
        return [task for task in range(max(first, self.before), end) if task not in self._above]


def note_logged_episodes(episodes: SegmentLog, tasks: TaskStream, done: DoneTasks) -> None:
    """Episodes that were acknowledged before the last stop need not be played again."""
    for _, table in episodes.scan():
        if tasks.learns:
            tasks.absorb(episodes_from_table(table))
        columns = zip(table.column("task").to_pylist(), table.column("purpose").to_pylist(), strict=True)
        done.add(task for task, purpose in columns if purpose == "train")


def note_logged_rows(
    experiences: SegmentLog,
    tasks: TaskStream,
    done: DoneTasks,
    refused_tasks: Iterable[list[int]],
) -> None:
    """Asynchronous: nor those of which only rows are there. Played again with a newer version it would be another game
    than the one whose experience is here."""
    for _, table in experiences.scan():
        table = table.filter(pc.field("task") < FIRST_TASK)  # other runs' tasks are theirs to play
        numbers = table.column("task").to_pylist()
        done.add(numbers)
        if tasks.learns:
            tasks.absorb_rewards(dict(zip(numbers, table.column("final_reward").to_pylist(), strict=True)))
    for numbers in refused_tasks:
        done.add(numbers)
