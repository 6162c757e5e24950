"""What a policy acts in, in words: an environment that a plugin registered, or one of Gymnasium's.

Invariant: an environment belongs to one attempt, and its seed decides all chance in it; attempts of one group begin
alike. To add one: a class with these methods, and `register_environment`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from ludus.config.sections.workflow import EnvironmentConfig, GymnasiumConfig
from ludus.errors import EnvError, boundary
from ludus.plugins import Registry
from ludus.rewards.attempt import check_value

log = logging.getLogger(__name__)

T = TypeVar("T")


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
class EnvironmentSource:
    """Makes the environments of a run."""

    name: str
    make: EnvironmentFactory
    """Called with the options of the config."""
    blocks: bool = False
    """Whether its code may take long enough that it should run beside the event loop, in a thread."""


ENVIRONMENTS: Registry[EnvironmentSource] = Registry("environment", "ludus.environments")


def register_environment(name: str, make: EnvironmentFactory, *, blocks: bool = False) -> None:
    """Make an environment known under a name, for `environment: {kind: custom, name: ...}`.

    Args:
        name: Small letters, digits and _.
        make: Makes an environment for one attempt, from the options of the config.
        blocks: Whether its code may take long, so that it should run in a thread.
    """
    ENVIRONMENTS.add(name, EnvironmentSource(name=name, make=make, blocks=blocks))


def find_environment(config: EnvironmentConfig) -> EnvironmentSource:
    """The environments that a config asks for.

    Raises:
        ConfigError: there are none, or none whose words can be had.
    """
    if isinstance(config, GymnasiumConfig):
        from ludus.workflows.gymnasium_text import GymnasiumWords

        GymnasiumWords(config).close()  # one is looked at
        return EnvironmentSource(name=config.id, make=partial(GymnasiumWords, config), blocks=config.blocks)
    found: Any = ENVIRONMENTS.find(config.name)
    source = found if isinstance(found, EnvironmentSource) else EnvironmentSource(name=config.name, make=found)
    return replace(source, make=partial(source.make, **config.options))


class OwnEnvironment:
    """One attempt's environment, called from the event loop: what it returns is checked, what it raises is typed.

    One that blocks runs in a thread, and never in two at once: closed while it is still at something, it is closed
    when that has ended.
    """

    def __init__(self, name: str, threads: ThreadPoolExecutor | None) -> None:
        self._name = name
        self._threads = threads
        self._latest: Future[Any] | None = None
        self._environment: TextEnvironment

    @classmethod
    async def make(cls, source: EnvironmentSource, threads: ThreadPoolExecutor | None) -> OwnEnvironment:
        """Make one; `threads` for those that block.

        Raises:
            EnvError: it cannot be made.
        """
        own = cls(source.name, threads)
        own._environment = await own._call(source.make)
        return own

    async def reset(self, inputs: Mapping[str, Any], seed: int) -> str:
        """Begin; returns the first observation. Raises EnvError."""
        first = await self._call(self._environment.reset, inputs, seed)
        if not isinstance(first, str):
            raise EnvError(f"environment {self._name}: reset returned {type(first).__name__}, expected text")
        return first

    async def actions(self) -> list[str] | None:
        """What can be done now. Raises EnvError."""
        actions = await self._call(self._environment.actions)
        if actions is None:
            return None
        words = list(actions)
        if not all(isinstance(word, str) and word for word in words):
            raise EnvError(f"environment {self._name}: an action is no word")
        return words

    async def step(self, action: str) -> EnvStep:
        """Do something.

        Raises:
            InvalidMove: it cannot be done.
            EnvError, RewardError: the environment failed.
        """
        step = await self._call(self._environment.step, action)
        if not isinstance(step, EnvStep) or not isinstance(step.observation, str):
            raise EnvError(f"environment {self._name}: step returned {type(step).__name__}, expected EnvStep with text")
        check_value(step.reward)
        return step

    def close(self) -> None:
        """Give it back, as soon as it is free."""
        if self._latest is not None and not self._latest.done():
            self._latest.add_done_callback(lambda _: self._close())
        else:
            self._close()

    def _close(self) -> None:
        try:
            self._environment.close()
        except Exception as error:  # whatever an environment may raise; the attempt is over anyway
            log.warning("environment %s could not be closed: %s: %s", self._name, type(error).__name__, error)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        with boundary(EnvError, f"environment {self._name}"):
            if self._threads is None:
                return function(*arguments)
            self._latest = job = self._threads.submit(function, *arguments)
            return await asyncio.wrap_future(job)
