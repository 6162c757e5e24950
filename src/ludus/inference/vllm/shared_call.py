"""Work that several callers of one event loop wait for together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedCall(Generic[T]):
    """At most one piece of work for each key at a time, which several callers wait for together, in one event loop.

    Whoever asks while it is under way gets the same result or the same error: a hundred callers of a dead server learn
    of it at once rather than one after the other. A caller that stops waiting does not stop the work.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[T]] = {}

    async def join(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]], *, ends: float) -> T:
        """What the work for a key comes to; it is begun unless it is under way.

        Raises:
            TimeoutError: it was not done by `ends` (of `time.monotonic`).
        """
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(work())
            self._running[key] = task
            task.add_done_callback(partial(self._forget, key))
        async with asyncio.timeout(ends - time.monotonic()):
            return await asyncio.shield(task)

    def _forget(self, key: Hashable, done: asyncio.Task[T]) -> None:
        del self._running[key]
        if not done.cancelled():
            done.exception()  # seen, even if nobody waits for it any more
