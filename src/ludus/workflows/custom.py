"""`custom`: a workflow that a user wrote, as a function or as a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ludus.errors import ConfigError
from ludus.records import Task
from ludus.workflows.rollout_model import RolloutModel


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
