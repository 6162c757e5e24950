"""Both ends together: the endpoint engine plays through `ludus serve`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ludus.config import EndpointConfig
from ludus.inference.openai.engine import OpenAIEngine
from ludus.inference.openai.wire import END, MessageFormat
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.records import PolicyName, PolicyRef

T = TypeVar("T")
GUEST = PolicyRef(name=PolicyName("guest"))
NEWS = "Your move?"


def with_player(url: str, use: Callable[[OpenAIEngine], Awaitable[T]], **settings: Any) -> T:
    async def work() -> T:
        options = {"model": "main@1", "url": url, "key_variable": None, **settings}
        engine = OpenAIEngine(EndpointConfig(**options))
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(work())


def a_request(prompt: list[int], seed: int, **sampling: Any) -> Request:
    options = {"max_tokens": 16, "stop_tokens": frozenset({END}), **sampling}
    return Request(prompt=tuple(prompt), policy=GUEST, sampling=Sampling(**options), seed=seed)


def test_a_seed_is_a_reply_whatever_else_is_asked(url: str) -> None:
    prompt = MessageFormat().opening([{"role": "user", "content": NEWS}])

    async def ask(engine: OpenAIEngine) -> list[Completion]:
        together = await asyncio.gather(*(engine.generate(a_request(prompt, seed=seed % 5)) for seed in range(20)))
        return [*together, await engine.generate(a_request(prompt, seed=3))]

    replies = with_player(url, ask, model="main")
    for seed in range(5):
        same = [reply for number, reply in enumerate(replies[:20]) if number % 5 == seed]
        assert all((reply.tokens == same[0].tokens).all() for reply in same)
    assert (replies[20].tokens == replies[3].tokens).all()


def test_tokens_are_counted_as_the_server_counts_them(url: str) -> None:
    prompt = MessageFormat().opening([{"role": "user", "content": NEWS}])

    async def ask(engine: OpenAIEngine) -> OpenAIEngine:
        await engine.generate(a_request(prompt, seed=1))
        return engine

    counters = with_player(url, ask, completion_price=1.0).counters
    assert 1 <= counters.sampled_tokens <= 16
    assert counters.prompt_tokens > len(NEWS)
    assert counters.cost == pytest.approx(counters.sampled_tokens / 1e6)
