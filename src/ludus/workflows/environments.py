"""What a policy acts in, in words: an environment that a plugin registered, or one of Gymnasium's.

Invariant: an environment belongs to one attempt, and its seed decides all chance in it; attempts of one group begin
alike. To add one: a class with these methods, and `register_environment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ludus.config import EnvironmentConfig, GymnasiumConfig
from ludus.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvStep:
    """What came of an action."""

    observation: str = ""
    """What the policy is told next."""
    reward: float = 0.0
    done: bool = False
    """Whether the environment has come to its end."""
    truncated: bool = False
    """Whether a limit of its own has ended it."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers to log; those of the last step count."""


class TextEnvironment(Protocol):
    """One attempt in an environment of words."""

    def reset(self, inputs: Mapping[str, Any], seed: int) -> str:
        """Begin; returns the first observation. Called once.

        Args:
            inputs: the task's fields.
            seed: decides all chance.
        """
        ...

    def actions(self) -> Sequence[str] | None:
        """What can be done now; None where that cannot be listed."""
        ...

    def step(self, action: str) -> EnvStep:
        """Do something.

        Raises:
            InvalidMove: it cannot be done; everything is as it was.
        """
        ...

    def close(self) -> None:
        """Give everything back. Called once."""
        ...


EnvironmentFactory = Callable[..., TextEnvironment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """An environment that somebody registered."""

    make: EnvironmentFactory
    blocks: bool


ENVIRONMENTS: Registry[Registered] = Registry("environment", "ludus.environments")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSource:
    """Makes the environments of a run."""

    name: str
    make: Callable[[], TextEnvironment]
    blocks: bool
    """Whether its code may take long enough that it should run beside the event loop, in a thread."""


def register_environment(name: str, make: EnvironmentFactory, *, blocks: bool = False) -> None:
    """Make an environment known under a name, for `environment: {kind: custom, name: ...}`.

    Args:
        name: Small letters, digits and _.
        make: Makes an environment for one attempt, from the options of the config.
        blocks: Whether its code may take long, so that it should run in a thread.
    """
    ENVIRONMENTS.add(name, Registered(make=make, blocks=blocks))


def find_environment(config: EnvironmentConfig) -> EnvironmentSource:
    """The environments that a config asks for.

    Raises:
        ConfigError: there are none, or none whose words can be had.
    """
    if isinstance(config, GymnasiumConfig):
        from ludus.workflows.gymnasium_text import GymnasiumWords

        return EnvironmentSource(name=config.id, make=GymnasiumWords.factory(config), blocks=config.blocks)
    found = ENVIRONMENTS.find(config.name)
    registered = found if isinstance(found, Registered) else Registered(make=found, blocks=False)
    options = config.options
    return EnvironmentSource(name=config.name, make=lambda: registered.make(**options), blocks=registered.blocks)
