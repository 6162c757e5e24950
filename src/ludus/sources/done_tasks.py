"""Which training tasks are finished: all below a mark, and some above it."""

from __future__ import annotations

from collections.abc import Iterable


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
