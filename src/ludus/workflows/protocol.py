"""What a workflow is: a way to go from a task to an outcome by talking with the policy."""

from __future__ import annotations

from typing import Protocol

from ludus.records import Task
from ludus.workflows.outcome import Outcome
from ludus.workflows.rollout_model import RolloutModel


class Workflow(Protocol):
    """Attempts tasks, hundreds at the same time, in one event loop. Keeps nothing of one attempt for another."""

    many_chats: bool
    """Whether an attempt may have more than one chat; then sequences say which chat they are."""

    async def run(self, task: Task, model: RolloutModel) -> Outcome | str | float | None:
        """Attempt a task. Called once for each attempt, with a model of its own.

        Raises:
            RolloutError: the attempt failed; whatever else it raises counts as one, too.
        """
        ...

    async def close(self) -> None:
        """Give everything back. Called once, at the end."""
        ...


class KeepsNothing:
    """Base of workflows that have one chat and nothing to give back."""

    many_chats = False

    async def close(self) -> None:
        """There is nothing."""
