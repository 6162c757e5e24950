"""What an agent program is given, and how one is made known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.errors import ConfigError
from ludus.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
    """One attempt, for a program that speaks the OpenAI API."""

    base_url: str
    """Where the policy is: `OpenAI(base_url=..., api_key=...)`."""
    api_key: str
    """Opens this attempt's interception and nothing else, until the attempt is over."""
    model: str
    """The policy's name; any other is answered, too."""
    inputs: Mapping[str, Any]
    """The task's fields: `prompt`, `answer` and whatever else its taskset has."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of the config."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to be run as a process."""

    arguments: tuple[str, ...]
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


AGENTS: Registry[Callable[[AgentTask], Any] | Command] = Registry("agent", "ludus.agents")


def register_agent(name: str, function: Callable[[AgentTask], Any]) -> None:
    """Make a function known as an agent, for `workflow: {kind: agent, name: ...}`.

    Args:
        name: Small letters, digits and _.
        function: Takes an `AgentTask`; returns an `Outcome`, a response, a reward, or nothing where it has told its
            reward or the last reply is scored. An async function shares the explorer's event loop; any other has a
            thread of its own, and cannot be ended when its time is up: one that may hang should be a program.
    """
    if not callable(function):
        raise ConfigError(f"agent {name!r}: expected a function of an AgentTask, got {type(function).__name__}")
    AGENTS.add(name, function)


def register_agent_program(
    name: str,
    arguments: Sequence[str],
    *,
    folder: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Make a program known as an agent; it knows nothing of ludus.

    It finds the policy in the environment variables OPENAI_BASE_URL and OPENAI_API_KEY, which the official clients
    read, and the task as one JSON object on its standard input (`inputs`, `options`, `model`, `seed`). What it prints
    is its response; without that, the policy's last reply is.

    Args:
        name: Small letters, digits and _.
        arguments: The program and its arguments; no shell is involved.
        folder: Where it runs. Default: where ludus does.
        environment: Variables to set besides.
    """
    if not arguments or not all(isinstance(argument, str) for argument in arguments):
        raise ConfigError(f"agent {name!r}: expected a program and its arguments, each as text")
    AGENTS.add(
        name,
        Command(
            arguments=tuple(arguments),
            folder=None if folder is None else Path(folder),
            environment=dict(environment or {}),
        ),
    )
