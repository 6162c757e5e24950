"""Several streams of tasks in one run: games beside tasksets.

Invariant: which stream a group of tasks belongs to, and its number there, follow from the group's number alone. A
stream counts its own groups 0, 1, 2, ... without a gap, as if it were alone: line-ups stay balanced and orders whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ludus.errors import ConfigError
from ludus.records import Episode, Task, TaskId
from ludus.tasks.mixture import Mixture
from ludus.tasks.protocol import EvaluationPlan, SeatsFor, TaskStream


class MixedTasks:
    """Interleaves streams by weight, in groups of `group` tasks."""

    def __init__(self, streams: Mapping[str, tuple[TaskStream, float]], seed: int, group: int = 1) -> None:
        """`streams` are given with their weights, under the names that the checkpoint has them by."""
        self._names = list(streams)
        self._streams = [stream for stream, _ in streams.values()]
        self._mixture = Mixture([weight for _, weight in streams.values()], seed)
        self._group = group
        self.learns = any(stream.learns for stream in self._streams)

    def training(self, first: int, count: int, seats_for: SeatsFor) -> list[Task]:
        """Tasks `[first, first + count)`."""
        return [self._training(number, seats_for) for number in range(first, first + count)]

    def _training(self, number: int, seats_for: SeatsFor) -> Task:
        index, own = self._place(number)
        task = self._streams[index].training(own, 1, seats_for)[0]
        return replace(task, id=TaskId(number), group=f"g{number // self._group}" if task.group else "")

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
