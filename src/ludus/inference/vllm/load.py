"""How busy a vLLM server is, as it tells at `/metrics`: looked up beside requests, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import re
import time

from ludus.errors import PolicyError, TimeoutExceeded
from ludus.inference.endpoint import Endpoint
from ludus.inference.protocol import EngineCounters

LOOK_S = 2.0
"""Between two looks."""
ANSWER_S = 10.0
_GAUGE = re.compile(r"^vllm:num_requests_(running|waiting)(?:\{[^}\n]*\})? ([0-9.eE+-]+)$", re.MULTILINE)


class ServerLoad:
    """Requests that run and that wait at one server, of late."""

    def __init__(self, url: str) -> None:
        """`url` is the server's, without `/v1`."""
        self._root = Endpoint(url, counters=EngineCounters(), retries=0, max_in_flight=1)
        self._looked = time.monotonic()
        self._looking: asyncio.Task[None] | None = None
        self.running, self.waiting = 0, 0
        self.looks = 0
        """Times that it told."""

    def refresh(self) -> None:
        """Look again if the last look is some time ago. In the event loop."""
        now = time.monotonic()
        if now - self._looked >= LOOK_S and (self._looking is None or self._looking.done()):
            self._looked = now
            self._looking = asyncio.ensure_future(self._look())

    async def close(self) -> None:
        """Look no more."""
        await self._root.close()

    async def _look(self) -> None:
        try:
            text = await self._root.text("/metrics", deadline_s=ANSWER_S)
        except (PolicyError, TimeoutExceeded):
            return  # requests tell what is wrong with the server
        self.running, self.waiting = read_load(text)
        self.looks += 1


def read_load(text: str) -> tuple[int, int]:
    """Requests that run and that wait, over all engines behind one server; 0 where it does not tell."""
    sums = {"running": 0.0, "waiting": 0.0}
    for what, number in _GAUGE.findall(text):
        sums[what] += float(number)
    return int(sums["running"]), int(sums["waiting"])
