"""A tool: a function that a model calls by name, with arguments that were checked.

Invariant: a tool keeps nothing between calls. What it raises as `ToolError` the model is told; anything else is a
mistake in the tool, and costs the attempt.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ludus.errors import ConfigError, EnvError, rollout_error
from ludus.plugins import Registry
from ludus.records import Task

BUILT_IN = ("calculator", "python")
_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_CHECKS: dict[str, tuple[type, ...]] = {name: (kind,) for kind, name in _TYPES.items()} | {"number": (int, float)}


class ToolError(Exception):
    """A call that cannot be made or came to nothing; the model is told why, and the attempt goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a model is told of a tool, and the function behind it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of its arguments: an object with `properties` and `required`."""
    function: Callable[..., Any]
    """Takes the arguments by name, and the keyword `task` or `seed` if it has one; returns text or a JSON value."""

    def described(self) -> dict[str, Any]:
        """As a model is told of it."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}

    async def call(self, arguments: Mapping[str, Any], *, task: Task, seed: int) -> str:
        """What a call comes to, as text.

        Raises:
            ToolError: for the model to be told.
            RolloutError: the tool failed.
        """
        self._check(arguments)
        extra = {"task": task, "seed": seed}
        taken = inspect.signature(self.function).parameters
        given = {**arguments, **{name: value for name, value in extra.items() if name in taken}}
        try:
            if inspect.iscoroutinefunction(self.function):
                result = await self.function(**given)
            else:
                result = await asyncio.to_thread(self.function, **given)
            return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        except ToolError:
            raise
        except Exception as error:  # whatever a tool may raise
            raise rollout_error(EnvError, f"tool {self.name}", error) from error

    def _check(self, arguments: Mapping[str, Any]) -> None:
        known: Mapping[str, Any] = self.parameters.get("properties", {})
        for name in self.parameters.get("required", known):
            if name not in arguments:
                raise ToolError(f"{self.name} needs the argument {name!r}")
        for name, value in arguments.items():
            if name not in known:
                raise ToolError(f"{self.name} has no argument {name[:60]!r}; it has: {', '.join(known) or 'none'}")
            wanted = known[name].get("type")
            is_number = isinstance(value, bool) and wanted != "boolean"
            if wanted in _CHECKS and (is_number or not isinstance(value, _CHECKS[wanted])):
                raise ToolError(f"{self.name}: expected {name} as {wanted}, got {type(value).__name__}")


TOOLS: Registry[Tool] = Registry("tool", "ludus.tools", reserved=BUILT_IN)


def register_tool(
    name: str,
    function: Callable[..., Any],
    *,
    description: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Make a tool known under a name, for `tools: [...]`.

    Args:
        name: Small letters, digits and _.
        function: Takes its arguments by name; may be async. One that is not runs in a thread. If it has a parameter
            `task` or `seed`, it is given them besides.
        description: For the model. Default: the first line of the function's documentation.
        parameters: JSON schema of the arguments. Default: from the function's annotations.
    """
    TOOLS.add(name, make_tool(name, function, description=description, parameters=parameters))


def make_tool(
    name: str, function: Callable[..., Any], *, description: str = "", parameters: Mapping[str, Any] | None = None
) -> Tool:
    """A tool from a function; see `register_tool`."""
    lines = (inspect.getdoc(function) or "").splitlines()
    return Tool(
        name=name,
        description=description or (lines[0] if lines else ""),
        parameters=_schema(name, function) if parameters is None else parameters,
        function=function,
    )


def _schema(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("task", "seed"):
            continue
        kind = _TYPES.get(hints.get(parameter.name))
        if kind is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(
                f"tool {name!r}: its parameter {parameter.name} is none of str, int, float, bool, list, dict;"
                " annotate it, or give the parameters as a JSON schema"
            )
        properties[parameter.name] = {"type": kind}
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {"type": "object", "properties": properties, "required": required}
