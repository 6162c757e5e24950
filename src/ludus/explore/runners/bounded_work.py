"""Runs a coroutine of somebody else's making so that it costs its own episode and no more.

Invariants: while its code runs, the pulse says whose it is, so a hang can be blamed on it. When its time is up it is
cancelled; one that will not end even then is left behind after a moment, and its slot is free. Whatever it raises comes
out as a typed error.
"""

from __future__ import annotations

import asyncio
import logging
import math
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from ludus.errors import EnvError, RolloutError, TimeoutExceeded, rollout_error
from ludus.runtime import NO_TASK

log = logging.getLogger(__name__)

GRACE_S = 5.0
"""What cancelled work may take to end."""

T = TypeVar("T")


class BoundedWork(Generic[T]):
    """One piece of work, begun at once. Await `result`; `stop` ends it early."""

    def __init__(self, work: Coroutine[Any, Any, T], *, what: str, task: int, mark: Callable[[int], None]) -> None:
        """`what` is named in errors; `mark` is told which task's code runs, and `NO_TASK` afterwards."""
        self._what = what
        self._is_stopped = False
        self._task: asyncio.Task[T] = asyncio.ensure_future(_marked(work, task, mark))

    def stop(self) -> None:
        """End it now: `result` raises `asyncio.CancelledError`."""
        self._is_stopped = True
        self._task.cancel()

    async def result(self, limit_s: float = math.inf) -> T:
        """What it returns.

        Raises:
            TimeoutExceeded: it took longer than this.
            RolloutError: it failed.
        """
        try:
            await asyncio.wait({self._task}, timeout=None if math.isinf(limit_s) else limit_s)
            is_late = not self._task.done()
        finally:
            await self._end()
        if is_late:
            raise TimeoutExceeded(f"the episode took longer than {limit_s:g} s")
        try:
            return self._task.result()
        except asyncio.CancelledError as error:
            if self._is_stopped:
                raise
            raise EnvError(f"{self._what} was cancelled by its own code") from error
        except RolloutError:
            raise
        except Exception as error:  # whatever others' code may raise
            raise rollout_error(EnvError, self._what, error) from error

    async def _end(self) -> None:
        if self._task.done():
            return
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=GRACE_S)
        if not self._task.done():
            log.warning("%s does not end when it is cancelled; it is left behind", self._what)
            _left_behind.add(self._task)
            self._task.add_done_callback(_forget)


_left_behind: set[asyncio.Task[Any]] = set()


def _forget(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()


async def _marked(work: Coroutine[Any, Any, T], task: int, mark: Callable[[int], None]) -> T:
    return await _steps(work, task, mark)


@types.coroutine
def _steps(work: Coroutine[Any, Any, T], task: int, mark: Callable[[int], None]) -> Generator[Any, Any, T]:
    """Step through a coroutine, with a mark before each step and none after it."""
    problem: BaseException | None = None
    while True:
        mark(task)
        try:
            awaited = work.send(None) if problem is None else work.throw(problem)
        except StopIteration as end:
            result: T = end.value
            return result
        except SystemExit as error:  # in an event loop it would end the whole process
            raise EnvError(f"its code wanted to exit with {error.code!r}") from error
        finally:
            mark(NO_TASK)
        try:
            yield awaited
            problem = None
        except BaseException as raised:  # for the work to deal with
            problem = raised
