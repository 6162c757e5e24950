"""How many requests a server has at a time: as many as it runs without letting others wait for long.

Requests beyond that wait here, where they can still move to another server or be given up. Invariant: never more than
`most` are inside, and never is the limit below `LEAST`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ludus.inference.vllm.load import ServerLoad

LEAST = 8
FIRST = 64
"""Where the limit begins."""
QUEUE = 0.25
"""Requests that may wait at the server, as a share of those that run there, before fewer are sent."""


class Window:
    """Places of one server, for callers of one event loop, in the order they came."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = min(most, FIRST)
        self.inside = 0
        self._looks = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def follow(self, load: ServerLoad) -> None:
        """Take what the server says of its load, once for each look at it."""
        if load.looks != self._looks:
            self._looks = load.looks
            self.adapt(load.running, load.waiting)

    def adapt(self, running: int, waiting: int) -> None:
        """Take what the server says of its load: more room while nobody waits there, less while many do."""
        if waiting > max(QUEUE * running, 1):
            self.limit = max(min(LEAST, self._most), self.limit * 3 // 4)
        elif not waiting and self.inside >= self.limit:
            self.limit = min(self._most, self.limit + max(self.limit // 4, 1))
        self._admit()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place, as soon as there is one."""
        if self.inside >= self.limit or self._waiting:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # a place was given that nobody takes
                    self._leave()
                raise
        else:
            self.inside += 1
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        self.inside -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.inside < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)
