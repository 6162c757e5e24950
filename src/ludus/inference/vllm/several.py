"""The vLLM servers of one node as one engine: each session keeps to a server, and moves when that is lost.

Invariant: a request goes to a server of the list that was given last. Requests at a server that is lost fail as
unreachable, so that their games begin again, at the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from zlib import crc32

from ludus.errors import Unreachable
from ludus.inference.protocol import Completion, Engine, EngineCounters, Request, ShowsLoad

WAIT_S = 10.0
"""A request waits so long for a first server before it fails."""


class ServersEngine:
    """Drives any number of servers from one event loop."""

    is_repeatable = False

    def __init__(self, make: Callable[[str, EngineCounters], Engine]) -> None:
        """`make` gives the engine for a server's URL, which counts in what it is given."""
        self.counters = EngineCounters()
        self._make = make
        self._engines: dict[str, Engine] = {}
        self._leaving: list[Engine] = []
        self._busy: Counter[int] = Counter()
        """Requests in flight at each engine; one that is left is closed when it has none."""
        self._some = asyncio.Event()

    @property
    def urls(self) -> tuple[str, ...]:
        """Of the servers that there are now."""
        return tuple(self._engines)

    def take_servers(self, urls: Sequence[str]) -> None:
        """These servers there are from now on."""
        self._leaving += [engine for url, engine in self._engines.items() if url not in urls]
        self._engines = {url: self._engines.get(url) or self._make(url, self.counters) for url in urls}
        if urls:
            self._some.set()
        else:
            self._some.clear()

    async def generate(self, request: Request) -> Completion:
        """Write one completion; see `Engine.generate`."""
        await self._let_go()
        if not self._engines:
            await self._await_some(min(WAIT_S, request.deadline_s))
        engine = self._engines[self._choose(request.session)]
        self._busy[id(engine)] += 1
        try:
            return await engine.generate(request)
        finally:
            self._busy[id(engine)] -= 1

    def load(self) -> tuple[int, int]:
        """Requests that run, and that wait, at all servers."""
        loads = [engine.load() for engine in self._engines.values() if isinstance(engine, ShowsLoad)]
        return sum(running for running, _ in loads), sum(waiting for _, waiting in loads)

    def end_session(self, session: str) -> None:
        """The session asks no more."""
        if self._engines:
            self._engines[self._choose(session)].end_session(session)

    async def close(self) -> None:
        """Let all connections go. Requests in flight fail."""
        self.take_servers(())
        self._busy.clear()
        await self._let_go()

    def _choose(self, session: str) -> str:
        """The server with the highest hash: when one goes, the sessions of the others stay where they are."""
        return max(self._engines, key=lambda url: (crc32(f"{session} {url}".encode()), url))

    async def _await_some(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._some.wait()
        except TimeoutError:
            raise Unreachable("no inference server of this node answers") from None

    async def _let_go(self) -> None:
        idle = [engine for engine in self._leaving if not self._busy[id(engine)]]
        self._leaving = [engine for engine in self._leaving if self._busy[id(engine)]]
        for engine in idle:
            await engine.close()
