"""An engine that says what a test tells it to, token by token, and fails or waits where it is told to."""

from __future__ import annotations

import asyncio
import threading

import numpy as np

from ludus.inference.protocol import Completion, EngineCounters, Request


class ScriptedEngine:
    """Says `text`, byte by byte, then the stop token. Raises `failure` once `fails_after` tokens have been said; waits for
    ever, noting that it was given up, once `waits_after` have."""

    is_repeatable = True

    def __init__(
        self,
        text: str,
        *,
        fails_after: int | None = None,
        failure: Exception | None = None,
        waits_after: int | None = None,
    ) -> None:
        self.counters = EngineCounters()
        self.text = text
        self.fails_after = fails_after
        self.failure = failure
        self.waits_after = waits_after
        self.requests: list[Request] = []
        self.is_waiting = threading.Event()
        self.was_given_up = threading.Event()
        self.was_closed = threading.Event()
        self.ended: list[str] = []
        self._starts: dict[str, int] = {}

    async def generate(self, request: Request) -> Completion:
        self.requests.append(request)
        said = len(request.prompt) - self._starts.setdefault(request.session, len(request.prompt))
        if self.failure is not None and said >= (self.fails_after or 0):
            raise self.failure
        if self.waits_after is not None and said >= self.waits_after:
            await self._wait()
        stop = min(request.sampling.stop_tokens)
        tokens = [*self.text.encode(), stop][said : said + request.sampling.max_tokens]
        self.counters.completed += 1
        return Completion(
            tokens=np.array(tokens, np.int32),
            logps=np.full(len(tokens), -0.5, np.float32),
            values=np.zeros(len(tokens), np.float32),
            policy=request.policy,
            finish="stop" if tokens[-1] == stop else "length",
        )

    def end_session(self, session: str) -> None:
        self.ended.append(session)

    async def close(self) -> None:
        self.was_closed.set()

    async def _wait(self) -> None:
        self.is_waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_given_up.set()
