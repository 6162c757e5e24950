"""`custom`: a workflow that a user wrote, as a function or as a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from ludus.config.workflows import CustomWorkflowConfig
from ludus.errors import ConfigError
from ludus.explore.workflows.registry import WORKFLOWS
from ludus.explore.workflows.rollout_model import RolloutModel
from ludus.records import Task


class CustomWorkflow:
    """What was registered, with the face of a workflow."""

    def __init__(self, config: CustomWorkflowConfig) -> None:
        """
        Raises:
            ConfigError: there is no such workflow, or it cannot be made with these options.
        """
        found = WORKFLOWS.find(config.name)
        self._made = _make(config, found) if inspect.isclass(found) else None
        self._run = partial(found, **config.options) if self._made is None else self._made.run
        self.many_chats = bool(getattr(self._made or found, "many_chats", True))
        function = found if self._made is None else self._made.run
        if not inspect.iscoroutinefunction(function):
            raise ConfigError(f"workflow {config.name!r}: expected an async function of a task and a model")

    async def run(self, task: Task, model: RolloutModel) -> Any:
        """Whatever the user's code comes to."""
        return await self._run(task, model)

    async def close(self) -> None:
        """Close what was made, if it can be closed."""
        closing = getattr(self._made, "close", None)
        if closing is not None and inspect.isawaitable(closed := closing()):
            await closed


def _make(config: CustomWorkflowConfig, found: Callable[..., Any]) -> Any:
    try:
        return found(**config.options)
    except Exception as error:  # whatever a user's class may raise
        raise ConfigError(f"workflow {config.name!r} could not be made: {type(error).__name__}: {error}") from error
