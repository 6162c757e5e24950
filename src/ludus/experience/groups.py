"""Which rows of a batch are compared with each other, and with which greedy attempt (the advantage `remax`).

A member is one seat in one episode, however many rows it has (turns, conversations). A group is the members that began
alike (`sequences["group"]`) in the same seat: the other side's reward says nothing about how well this one played. A
member without a group's name is alone.

A greedy attempt goes through checks, operators, buffer and transforms like the others of its group, so that its reward
is made of the same; it leaves the batch right before training and stays in it as the others' `baseline`.

Invariants:
- What is computed for a group depends on its own rows alone, in their order, to the last bit; so a group comes to the
  same whatever else is in the batch.
- A baseline is the mean of the rewards that a learner would see in the rows of the greedy attempt of the same group and
  seat; not a number where that attempt failed, was refused or is gone. A greedy row is never trained on as what the
  policy did. Rows of experts and pairs are left alone.
- Rows wait in `OpenGroups` until all of their group is there. Every episode that goes in comes out exactly once,
  together with the rest of its group, in the order of their tasks; or never, if its group is dropped. A failed episode
  counts as there, and so does a task that was done before this process began. What waits is in memory only: its tasks
  count as not played, so after a crash they are played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.experience.verify import Verified
from ludus.records import Episode, Experiences, join

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Members and groups of n rows."""

    member: Ints
    """Which member each row belongs to, `[n]`."""
    group: Ints
    """Which group each member belongs to, `[m]`."""
    names: tuple[str, ...]
    """Name of each group, `[g]`; empty for a member that has nobody to be compared with."""

    @property
    def of_rows(self) -> Ints:
        """Which group each row belongs to, `[n]`."""
        rows: Ints = self.group[self.member]
        return rows

    @property
    def sizes(self) -> Ints:
        """Members of each group, `[g]`."""
        return np.bincount(self.group, minlength=len(self.names))

    @property
    def are_named(self) -> NDArray[np.bool_]:
        """Which groups are groups, and not a member on its own, `[g]`."""
        return np.array([bool(name) for name in self.names], np.bool_)

    def per_member(self, values: NDArray[Any]) -> Floats:
        """Mean over the rows of each member, `[m]`, of a value per row."""
        rows = np.bincount(self.member, minlength=len(self.group))
        return np.bincount(self.member, values, minlength=len(self.group)) / np.maximum(rows, 1)

    def means(self, of_members: Floats) -> Floats:
        """Mean over the members of each group, `[g]`."""
        sums = np.bincount(self.group, of_members, minlength=len(self.names))
        return np.asarray(sums / np.maximum(self.sizes, 1), np.float64)

    def deviations(self, of_members: Floats) -> Floats:
        """Standard deviation (the unbiased one) of each group, `[g]`; 0 for a member on its own."""
        squares = (of_members - self.means(of_members)[self.group]) ** 2
        sums = np.bincount(self.group, squares, minlength=len(self.names))
        return np.asarray(np.sqrt(sums / np.maximum(self.sizes - 1, 1)), np.float64)

    def spreads(self, of_members: Floats) -> Floats:
        """Highest less lowest of each group, `[g]`."""
        low, high = np.full(len(self.names), np.inf), np.full(len(self.names), -np.inf)
        np.minimum.at(low, self.group, of_members)
        np.maximum.at(high, self.group, of_members)
        return np.asarray(high - low, np.float64)


def find_groups(rows: Experiences) -> Groups:
    """The groups of a batch, numbered in the order of their first rows."""
    columns = rows.sequences
    seats = columns["seat"].tolist()
    keys = list(zip(columns["episode"].tolist(), columns["attempt"].tolist(), seats, strict=True))
    member = _numbered(keys)
    names = [str(name) for name in columns["group"].tolist()]
    groups = [(name, seat if name else which) for name, seat, which in zip(names, seats, member.tolist(), strict=True)]
    numbered = _numbered(groups)
    group_of_member = np.zeros(int(member.max(initial=-1)) + 1, np.int64)
    group_of_member[member] = numbered
    return Groups(member=member, group=group_of_member, names=tuple(name for name, _ in dict.fromkeys(groups)))


def learnt_rewards(rows: Experiences) -> Floats:
    """What a learner will see each row get, `[n]`: its rewards from its first choice on."""
    begin, stop = int(rows.offsets[0]), int(rows.offsets[-1])
    chosen = np.cumsum(np.asarray(rows.steps["mask"][begin:stop], np.bool_))
    owner = rows.sequence_of_step()
    before = np.concatenate([[0], chosen])[rows.offsets[:-1] - begin]
    earned = np.where(chosen > before[owner], rows.steps["reward"][begin:stop].astype(np.float64), 0.0)
    return np.asarray(np.bincount(owner, earned, minlength=len(rows)), np.float64)


def _numbered(keys: list[Any]) -> Ints:
    """Equal keys as equal numbers from 0, in the order of their first appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


GREEDY, BASELINE = "greedy", "baseline"


def mark_greedy(rows: Experiences, episodes: Iterable[Episode]) -> Experiences:
    """The rows with the column `greedy`, by who sat in their seats."""
    if not len(rows):
        return rows
    seats = {episode.id: episode.task.seats for episode in episodes}
    places = zip(rows.sequences["episode"].tolist(), rows.sequences["seat"].tolist(), strict=True)
    greedy = np.fromiter((seats[episode][seat].greedy for episode, seat in places), np.bool_, len(rows))
    return rows.replace(sequences={GREEDY: greedy})


def are_greedy(rows: Experiences) -> NDArray[np.bool_]:
    """Which rows are greedy attempts of the policy itself, `[n]`."""
    columns = rows.sequences
    if GREEDY not in columns:
        return np.zeros(len(rows), np.bool_)
    greedy = np.asarray(columns[GREEDY], np.bool_)
    if "source" not in columns:
        return greedy
    on_policy: NDArray[Any] = np.asarray(columns["source"], object) == "on_policy"
    return greedy & on_policy.astype(np.bool_)


def with_baselines(rows: Experiences) -> Experiences:
    """The rows without greedy ones, each with the `baseline` that those of its group give it.

    Rows that do not know of greedy attempts (no column `greedy`) stay as they are.
    """
    if GREEDY not in rows.sequences:
        return rows
    greedy, groups = are_greedy(rows), find_groups(rows)
    of_rows = groups.of_rows
    # A mean over members of means over their rows; but for a task that was played twice there is one greedy member.
    is_greedy = groups.per_member(greedy.astype(np.float64)) > 0
    rewards = groups.per_member(learnt_rewards(rows))
    count = np.bincount(groups.group, is_greedy, minlength=len(groups.names))
    total = np.bincount(groups.group, np.where(is_greedy, rewards, 0.0), minlength=len(groups.names))
    known = groups.are_named & (count > 0)
    baseline = np.where(known, total / np.maximum(count, 1), np.nan)[of_rows].astype(np.float32)
    return rows.replace(sequences={BASELINE: baseline}).take(np.flatnonzero(~greedy))


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

    def drop(self, tasks: Iterable[int]) -> None:
        """Forget the groups of these tasks, and what of them waits."""
        for number in {task // self._size for task in tasks}:
            self._waiting.pop(number, None)

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
