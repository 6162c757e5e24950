"""What is known of groups of attempts that are not settled yet: which row each attempts, and what came back.

Invariant: a group keeps the row that was chosen for it until it is settled, through any number of resumes; each of its
attempts counts once, however often it is noted; and a settled group is never opened again. Memory and state hold only
the groups between the oldest unsettled and the newest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ludus.errors import StorageError


@dataclass(slots=True, kw_only=True)
class OpenGroup:
    """A group that was chosen and is not settled."""

    taskset: str
    row: int
    rewards: dict[int, float | None] = field(default_factory=dict)
    """By attempt; None for one that failed."""


class GroupLedger:
    """Groups by number, `size` attempts each."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._open: dict[int, OpenGroup] = {}
        self._settled_before = 0
        self._settled: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def find(self, group: int) -> OpenGroup | None:
        """A group that is open; None for one that was never chosen.

        Raises:
            StorageError: it is settled.
        """
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
