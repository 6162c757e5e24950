"""What a workflow is: a way to go from a task to an outcome by talking with the policy. Users' own are found by name:
registered by a plugin, or an entry point of the group `ludus.workflows`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from ludus.errors import ConfigError
from ludus.plugins import Registry
from ludus.records import Task
from ludus.workflows.outcome import Outcome
from ludus.workflows.rollout_model import RolloutModel

WORKFLOWS: Registry[Callable[..., Any]] = Registry("workflow", "ludus.workflows")


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


def register_workflow(name: str, workflow: Callable[..., Any]) -> None:
    """Make a workflow known under a name, for `workflow: {kind: custom, name: ...}`.

    Args:
        name: Small letters, digits and _.
        workflow: An async function of a task and a `RolloutModel`, or a class with such a method `run`. The options of
            the config are further arguments of the function, or those that the class is made with.
    """
    if not callable(workflow):
        raise ConfigError(f"workflow {name!r}: expected an async function or a class, got {type(workflow).__name__}")
    WORKFLOWS.add(name, workflow)


class CustomWorkflow:
    """What was registered, with the face of a workflow."""

    def __init__(self, name: str, found: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """
        Raises:
            ConfigError: it is no workflow, or cannot be made with these options.
        """
        self._made = _make(name, found, options) if inspect.isclass(found) else None
        run = found if self._made is None else getattr(self._made, "run", None)
        if not inspect.iscoroutinefunction(run):
            raise ConfigError(f"workflow {name!r}: expected an async function of a task and a model")
        self._run: Callable[..., Any] = partial(run, **options) if self._made is None else run
        self.many_chats = bool(getattr(self._made or found, "many_chats", True))

    async def run(self, task: Task, model: RolloutModel) -> Any:
        """Whatever the user's code comes to."""
        return await self._run(task, model)

    async def close(self) -> None:
        """Close what was made, if it can be closed."""
        closing = getattr(self._made, "close", None)
        if closing is not None and inspect.isawaitable(closed := closing()):
            await closed


def _make(name: str, found: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    try:
        return found(**options)
    except Exception as error:  # whatever a user's class may raise
        raise ConfigError(f"workflow {name!r} could not be made: {type(error).__name__}: {error}") from error
