"""One attempt's environment, called from the event loop: what it returns is checked, what it raises is typed.

Invariants: one that blocks runs in a thread, and never in two at once: closed while it is still at something, it is
closed when that has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from ludus.errors import EnvError, boundary
from ludus.rewards.values import check_value
from ludus.workflows.environments import EnvironmentSource, EnvStep, TextEnvironment

log = logging.getLogger(__name__)

T = TypeVar("T")


class OwnEnvironment:
    """An environment with the same methods, to be awaited."""

    def __init__(self, name: str, threads: ThreadPoolExecutor | None) -> None:
        self._name = name
        self._threads = threads
        self._latest: Future[Any] | None = None
        self._environment: TextEnvironment | None = None

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
        first = await self._call(self._need().reset, inputs, seed)
        if not isinstance(first, str):
            raise EnvError(f"environment {self._name}: reset returned {type(first).__name__}, expected text")
        return first

    async def actions(self) -> list[str] | None:
        """What can be done now. Raises EnvError."""
        actions = await self._call(self._need().actions)
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
        step = await self._call(self._need().step, action)
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
            self._need().close()
        except Exception as error:  # whatever an environment may raise; the attempt is over anyway
            log.warning("environment %s could not be closed: %s: %s", self._name, type(error).__name__, error)

    def _need(self) -> TextEnvironment:
        if self._environment is None:
            raise EnvError(f"environment {self._name} was not made")
        return self._environment

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        with boundary(EnvError, f"environment {self._name}"):
            if self._threads is None:
                return function(*arguments)
            self._latest = job = self._threads.submit(function, *arguments)
            return await asyncio.wrap_future(job)
