"""What plugins bring for workflows, by name: workflows, environments, tools and agent programs.

Each is registered by a plugin, or an entry point of the group `ludus.workflows`, `ludus.environments`, `ludus.tools`,
`ludus.agents`. A config can only name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from ludus.config import NAME
from ludus.errors import ConfigError
from ludus.plugins import entry_points, load_entry_point

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind, by name."""

    def __init__(self, what: str, group: str, *, built_in: tuple[str, ...] = ()) -> None:
        """`what` they are called in errors; `group` of entry points; `built_in` names that are taken."""
        self._what = what
        self._group = group
        self._built_in = built_in
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> None:
        """Make something known under a name; what had the name before is forgotten.

        Raises:
            ConfigError: it cannot have that name.
        """
        if not re.match(NAME, name) or name in self._built_in:
            taken = f" other than {', '.join(self._built_in)}" if self._built_in else ""
            raise ConfigError(f"{self._what} name {name!r}: expected small letters, digits and _, at most 32{taken}")
        self._things[name] = thing

    def find(self, name: str) -> T:
        """What is known under a name.

        Raises:
            ConfigError: nothing is.
        """
        thing: T | None = self._things.get(name) or load_entry_point(self._group, name)
        if thing is None:
            known = sorted({*self._built_in, *self._things, *entry_points(self._group)})
            nearest = get_close_matches(name, known, n=1, cutoff=0.5) or known
            hint = f"did you mean {' or '.join(nearest)}?" if nearest else "register it in a file given with --plugin"
            raise ConfigError(f"{self._what} {name!r}: no such {self._what}; {hint}")
        return thing


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
