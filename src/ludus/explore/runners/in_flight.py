"""Many tasks at once: a coroutine each, in one event loop that runs while somebody calls `step`.

Invariant: every task that was submitted comes out once, when its coroutine returns. One that the engine interrupted by
being out of reach begins again, and while the engine is, one at a time tries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from ludus.inference.policy_sampler import Interrupted, Outage
from ludus.records import Task
from ludus.runtime import NO_TASK, Pulse

STEP_S = 0.05
"""How long one `step` goes on when nothing finishes, at most."""

T = TypeVar("T")


class InFlight(Generic[T]):
    """Keeps up to `slots` tasks in flight."""

    def __init__(
        self, play: Callable[[Task], Coroutine[Any, Any, T]], *, slots: int, outage: Outage, pulse: Pulse
    ) -> None:
        """`play` does one task, whatever happens to it; it raises `Interrupted` when the task is to begin again."""
        self.slots = slots
        self._play = play
        self._outage = outage
        self._pulse = pulse
        self._waiting: deque[Task] = deque()
        self._playing: set[asyncio.Task[T | None]] = set()
        self._finished: list[T] = []
        self._loop = asyncio.new_event_loop()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._playing and not self._waiting

    @property
    def finished(self) -> int:
        """What the next `take` would return."""
        return len(self._finished)

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        self._waiting.extend(tasks)

    def step(self) -> None:
        """Go on until something finishes, or for a moment.

        Raises:
            EngineLost: the engine has been out of reach for too long.
        """
        while self._waiting and len(self._playing) < (1 if self._outage.reason else self.slots):
            self._playing.add(self._loop.create_task(self._run(self._waiting.popleft())))
        if self._playing:
            self._loop.run_until_complete(self._go_on())
        self._pulse.working_on(NO_TASK)
        self._pulse.tick()

    def take(self) -> list[T]:
        """What has finished since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def close(self, give_back: Callable[[], Awaitable[None]]) -> None:
        """Give up what is in flight, then `give_back` in the same loop. Closing again changes nothing."""
        if self._loop.is_closed():
            return
        for playing in self._playing:
            playing.cancel()
        self._loop.run_until_complete(self._close(give_back))
        self._loop.close()

    async def _close(self, give_back: Callable[[], Awaitable[None]]) -> None:
        await asyncio.gather(*self._playing, return_exceptions=True)
        await give_back()

    async def _go_on(self) -> None:
        done, self._playing = await asyncio.wait(self._playing, timeout=STEP_S, return_when=asyncio.FIRST_COMPLETED)
        failures = [failure for each in done if (failure := each.exception()) is not None]
        if failures:
            raise failures[0]
        self._finished += [finished for each in done if (finished := each.result()) is not None]

    async def _run(self, task: Task) -> T | None:
        try:
            return await self._play(task)
        except Interrupted:
            self._waiting.appendleft(task)
            return None
