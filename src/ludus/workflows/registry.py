"""Users' own workflows by name: registered by a plugin, or an entry point of the group `ludus.workflows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.errors import ConfigError
from ludus.plugins import Registry

WORKFLOWS: Registry[Callable[..., Any]] = Registry("workflow", "ludus.workflows")


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
