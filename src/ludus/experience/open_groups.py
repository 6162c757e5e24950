"""Rows wait here until all of their group is there, because operators judge whole groups.

Invariant: every episode that goes in comes out exactly once, together with the rest of its group, whoever finished
first; the rows of a group come out in the order of their tasks. A failed episode counts as there, and so does a task
that was done before this process began. What waits is in memory only: its tasks count as not played, so after a crash
they are played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ludus.experience.verify import Verified
from ludus.records import Episode, Experiences, join


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeGroups:
    """Groups that are complete: what may go to the logs now."""

    episodes: tuple[Episode, ...]
    experiences: Experiences
    """Rows that passed the checks, for the operators."""
    refused: tuple[Experiences, ...]
    """Rows that did not, with the columns `reason` and `detail`, as they came: not all have the same columns."""


@dataclass(slots=True)
class _Waiting:
    episodes: list[Episode] = field(default_factory=list)
    rows: list[Experiences] = field(default_factory=list)
    refused: list[Experiences] = field(default_factory=list)


class OpenGroups:
    """Groups of `size` tasks whose numbers follow each other. One thread."""

    def __init__(self, size: int, is_done: Callable[[int], bool] = lambda task: False) -> None:
        """`is_done` says of a task whether its episode is in the log already, so that nobody will bring it."""
        self._size = size
        self._is_done = is_done
        self._waiting: dict[int, _Waiting] = {}

    @property
    def waiting(self) -> int:
        """Episodes that wait for others of their group."""
        return sum(len(group.episodes) for group in self._waiting.values())

    def to_begin(self, next_task: int, wanted: int) -> int:
        """How many tasks to begin when `wanted` are asked for, from `next_task` on: enough that no group is left half
        begun, which would wait for ever for tasks that nobody asks for."""
        if wanted <= 0:
            return 0
        return -(-(next_task + wanted) // self._size) * self._size - next_task

    def add(self, episodes: Sequence[Episode], verified: Verified) -> WholeGroups | None:
        """Take episodes as an explorer brought them, with what the checks made of their rows.

        Returns:
            All groups that are complete now, by rising number; None when there are none.
        """
        touched = self._keep(episodes, verified)
        complete = [number for number in sorted(touched) if self._is_complete(number)]
        if not complete:
            return None
        groups = [self._waiting.pop(number) for number in complete]
        return WholeGroups(
            episodes=tuple(episode for group in groups for episode in sorted(group.episodes, key=_by_task)),
            experiences=_in_task_order(join([part for group in groups for part in group.rows])),
            refused=tuple(part for group in groups for part in group.refused),
        )

    def _keep(self, episodes: Sequence[Episode], verified: Verified) -> set[int]:
        for episode in episodes:
            self._waiting.setdefault(episode.task.id // self._size, _Waiting()).episodes.append(episode)
        for number, part in self._by_group(verified.experiences):
            self._waiting.setdefault(number, _Waiting()).rows.append(part)
        for number, part in self._by_group(verified.refused_rows):
            self._waiting.setdefault(number, _Waiting()).refused.append(part)
        return {episode.task.id // self._size for episode in episodes}

    def _by_group(self, rows: Experiences) -> Iterable[tuple[int, Experiences]]:
        if not len(rows):
            return
        numbers = rows.sequences["task"] // self._size
        for number in np.unique(numbers).tolist():
            yield number, rows.take(np.flatnonzero(numbers == number))

    def _is_complete(self, number: int) -> bool:
        here = {episode.task.id for episode in self._waiting[number].episodes}
        tasks = range(number * self._size, (number + 1) * self._size)
        return all(task in here or self._is_done(task) for task in tasks)


def _by_task(episode: Episode) -> tuple[int, int]:
    return episode.task.id, episode.task.attempt


def _in_task_order(rows: Experiences) -> Experiences:
    if not len(rows):
        return rows
    columns = rows.sequences
    return rows.take(np.lexsort((rows.places, columns["attempt"], columns["task"])))
