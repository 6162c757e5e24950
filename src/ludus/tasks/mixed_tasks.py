"""Several streams of tasks in one run, such as games beside tasksets, and the arithmetic of mixing by weight.

Invariant: which stream a group of tasks belongs to, and its number there, follow from the group's number alone, in
whole numbers. Of the first n groups, stream i has its share of n, give or take as many as there are streams, and counts
its own groups 0, 1, 2, ... without a gap, as if it were alone: line-ups stay balanced and orders whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from ludus.errors import ConfigError
from ludus.records import Episode, Task, TaskId, derive_seed
from ludus.tasks.protocol import EvaluationPlan, SeatsFor, TaskStream

_FINENESS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """How many of the numbers that reach a set are its own: `part` of every `whole`, beginning somewhere."""

    part: int
    whole: int
    phase: int

    def before(self, number: int) -> int:
        """Of the numbers below this one, how many are its own."""
        return (number * self.part + self.phase) // self.whole


class Mixture:
    """Sets by weight. The first set takes its share; the second its share of what is left, and so on."""

    def __init__(self, weights: Sequence[float], seed: int) -> None:
        self._shares: list[_Share] = []
        for index in range(len(weights) - 1):
            exact = Fraction(weights[index]) / sum(map(Fraction, weights[index:]))
            whole = min(exact.denominator, _FINENESS)
            part = min(max(round(exact * whole), 1), whole)
            phase = derive_seed(seed, "mixture", index) % whole
            self._shares.append(_Share(part=part, whole=whole, phase=phase))

    def place(self, group: int) -> tuple[int, int]:
        """Which set a group is of, and which of that set's groups it is."""
        number = group
        for index, share in enumerate(self._shares):
            own = share.before(number)
            if share.before(number + 1) > own:
                return index, own
            number -= own
        return len(self._shares), number

    def counts(self, group: int) -> list[int]:
        """Of the groups below this one, how many each set has."""
        counts, left = [], group
        for share in self._shares:
            counts.append(share.before(left))
            left -= counts[-1]
        return [*counts, left]


class MixedTasks(TaskStream):
    """Interleaves streams by weight, in groups of `group` tasks."""

    def __init__(self, streams: Mapping[str, tuple[TaskStream, float]], seed: int, group: int = 1) -> None:
        """`streams` are given with their weights, under the names that the checkpoint has them by."""
        self._names = list(streams)
        self._streams = [stream for stream, _ in streams.values()]
        self._mixture = Mixture([weight for _, weight in streams.values()], seed)
        self._group = group
        self.learns = any(stream.learns for stream in self._streams)

    def task(self, number: TaskId, seats_for: SeatsFor) -> Task:
        """One training task, of the stream whose turn it is."""
        index, own = self._place(number)
        task = self._streams[index].task(TaskId(own), seats_for)
        return replace(task, id=number, group=f"g{number // self._group}" if task.group else "")

    def _place(self, number: int) -> tuple[int, int]:
        """Which stream a task is of, and its number there."""
        group, attempt = divmod(number, self._group)
        index, own = self._mixture.place(group)
        return index, own * self._group + attempt

    def evaluation(self, job: int, plan: EvaluationPlan, *, first: int = 0) -> list[Task]:
        """The tasks of the `job`-th evaluation, stream after stream."""
        tasks: list[Task] = []
        for stream in self._streams:
            tasks += stream.evaluation(job, plan, first=first + len(tasks))
        return tasks

    def absorb(self, episodes: Iterable[Episode]) -> None:
        """Note training episodes, each with its stream."""
        for episode in episodes:
            if episode.task.purpose == "train":
                index, own = self._place(episode.task.id)
                self._streams[index].absorb([replace(episode, task=replace(episode.task, id=TaskId(own)))])

    def absorb_rewards(self, rewards: Mapping[int, float]) -> None:
        """Note rewards, each with its stream."""
        for number, reward in rewards.items():
            index, own = self._place(number)
            self._streams[index].absorb_rewards({own: reward})

    def settle(self, before: int | None = None) -> None:
        """Let every stream learn from its part of the tasks below `before`."""
        counts: Sequence[int | None] = [None] * len(self._streams)
        if before is not None:
            counts = [own * self._group for own in self._mixture.counts(before // self._group)]
        for stream, own in zip(self._streams, counts, strict=True):
            stream.settle(own)

    def state(self) -> dict[str, Any]:
        """The state of every stream, by its name."""
        return {name: stream.state() for name, stream in zip(self._names, self._streams, strict=True)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        if list(state) != self._names:
            raise ConfigError(
                f"tasks: the checkpoint has {', '.join(state) or 'none'}, the run {' and '.join(self._names)}"
            )
        for name, stream in zip(self._names, self._streams, strict=True):
            stream.load_state(state[name])
