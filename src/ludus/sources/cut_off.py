"""Stragglers (`explore.cut_off`): once the share of a batch that is enough is there, the rest is given up.

A unit is a task or, with `explore.group`, a group: half a group is never trained on.

- Synchronous: the shortest units of a batch are kept, by steps of play (plies and sampled tokens; a group has those of
  its longest episode), and of equally long ones the earlier. That follows from the seed alone. Explorers give up an
  episode as soon as it is longer than the longest of those that are enough, and it can only get longer; so nobody waits
  for the end of what will not be kept, and who was how fast decides nothing. A run that is killed decides the same
  again: what came back is known from the log, or from the checkpoint.
- Asynchronous: every `train.batch_episodes` tasks in the order of issue are a batch, and what comes first is enough.

Invariant: a task that was given up is done. It comes back in no batch, an order of tasks learns nothing from it, and
what an explorer still sends of it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from ludus.config import RunConfig
from ludus.records import Episode
from ludus.sources.done_tasks import DoneTasks

CUT = 2**62
"""Steps of what was given up: more than anything has."""
_ROUNDING = 1e-9


class CutOff:
    """Tells which tasks of a batch are stragglers. One thread."""

    def __init__(self, config: RunConfig) -> None:
        self.share = config.explore.cut_off
        self._group = config.explore.group
        self._steps: dict[int, int] = {}
        """Of tasks that came back, of batches that are not trained on."""
        self._told: set[int] = set()
        """Units that this process has given up."""
        self.count = 0
        """Tasks that this process has given up."""

    @property
    def is_on(self) -> bool:
        """Whether anything is ever given up."""
        return self.share < 1

    def enough(self, tasks: int) -> int:
        """How many of so many tasks are enough: whole units, at least one."""
        units = -(-tasks // self._group)
        return min(max(ceil(self.share * units - _ROUNDING), 1) * self._group, tasks)

    def note(self, episodes: Iterable[Episode]) -> None:
        """Training episodes came back, in whole groups, or are in the log."""
        if self.is_on:
            for episode in episodes:
                if episode.task.purpose == "train":
                    self._steps.setdefault(episode.task.id, episode.steps)

    def bound(self, tasks: range) -> int | None:
        """Steps that a unit of this batch may have: those of the longest that is kept; None while more are needed."""
        lengths, enough = self._lengths(tasks), self.enough(len(tasks)) // self._group
        return sorted(lengths.values())[enough - 1] if len(lengths) >= enough else None

    def stragglers(self, tasks: range, given_up: Iterable[int]) -> list[int]:
        """Tasks of the batch that are not kept, whatever becomes of the others; each once.

        `given_up` are those that explorers gave up as longer than `bound`.
        """
        lengths, enough = self._lengths(tasks), self.enough(len(tasks)) // self._group
        ranked = sorted(lengths, key=lambda unit: (lengths[unit], unit))
        over = {*ranked[enough:], *(task // self._group for task in given_up if task in tasks)}
        cut = [task for task in tasks if task // self._group in over - self._told]
        self._told |= over
        self._steps.update(dict.fromkeys(cut, CUT))
        self.count += len(cut)
        return cut

    def late(self, tasks: range, done: DoneTasks) -> list[int]:
        """Asynchronous: tasks of the batch that have not come back although enough others have."""
        missing = done.missing(tasks.start, tasks.stop)
        units = {task // self._group for task in missing}
        if not missing or len(tasks) - len(units) * self._group < self.enough(len(tasks)):
            return []
        cut = [task for task in tasks if task // self._group in units]
        self.count += len(cut)
        return cut

    def forget(self, before: int) -> None:
        """Batches below this task are trained on."""
        self._steps = {task: steps for task, steps in self._steps.items() if task >= before}
        self._told = {unit for unit in self._told if unit * self._group >= before}

    def state(self) -> dict[str, Any]:
        """For the checkpoint: episodes of batches that are played ahead may leave the log."""
        return {"steps": sorted(self._steps.items())} if self.is_on else {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._steps = {int(task): int(steps) for task, steps in state.get("steps", ())}
        self._told = set()

    def metrics(self) -> dict[str, float]:
        """Nothing where nothing is ever given up."""
        return {"explore/cut_off": float(self.count)} if self.is_on else {}

    def _lengths(self, tasks: range) -> dict[int, int]:
        """Steps of the units that came back whole."""
        units: dict[int, list[int]] = {}
        for task in tasks:
            if task in self._steps:
                units.setdefault(task // self._group, []).append(self._steps[task])
        return {unit: max(steps) for unit, steps in units.items() if len(steps) == self._group}
