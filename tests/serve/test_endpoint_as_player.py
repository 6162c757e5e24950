"""Both ends together: the endpoint engine plays through `ludus serve`, and its log-probabilities are transformers'."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import torch

from ludus.inference.conversation import conversation_tokens
from ludus.inference.openai.engine import OpenAIEngine, OpenAISettings
from ludus.inference.openai.wire import END, MessageFormat
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.lm.chat import ChatFormat
from ludus.records import PolicyName, PolicyRef

T = TypeVar("T")
GUEST = PolicyRef(name=PolicyName("guest"))
NEWS = ("Your move?", "Taken. Another?", "And now?")


def with_player(url: str, use: Callable[[OpenAIEngine], Awaitable[T]], **settings: Any) -> T:
    async def work() -> T:
        options = {"model": "main@1", "url": url, "key_variable": None, "logprobs": True, **settings}
        engine = OpenAIEngine(OpenAISettings(**options))
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(work())


def a_request(prompt: list[int], seed: int, **sampling: Any) -> Request:
    options = {"max_tokens": 16, "stop_tokens": frozenset({END}), **sampling}
    return Request(prompt=tuple(prompt), policy=GUEST, sampling=Sampling(**options), seed=seed)


def test_log_probabilities_of_games_are_those_of_transformers(url: str, talking_run: Any) -> None:
    format, heat, most = MessageFormat(), 0.8, 8
    turns: list[tuple[list[int], Completion]] = []

    async def play(engine: OpenAIEngine, game: int) -> None:
        prompt = format.opening([{"role": "user", "content": NEWS[0]}])
        for turn, news in enumerate((*NEWS[1:], "")):
            done = await engine.generate(a_request(prompt, seed=10 * game + turn, temperature=heat, max_tokens=most))
            if done.finish == "length" and len(done.tokens) != most:
                return  # an untaught model also says marks, which text cannot carry
            turns.append((list(prompt), done))
            prompt += [*done.tokens.tolist(), *format.reply(news, ended=done.finish == "stop")]

    async def play_all(engine: OpenAIEngine) -> None:
        await asyncio.gather(*(play(engine, game) for game in range(10)))

    with_player(url, play_all)
    assert len(turns) > 10
    reference = talking_run.reference(1)
    mark = talking_run.model.tokenizer.convert_tokens_to_ids("<|im_end|>")
    for prompt, done in turns:
        tokens = conversation_tokens(ChatFormat(talking_run.model.tokenizer), format.messages(prompt))
        sampled = [mark if token == END else token for token in done.tokens.tolist()]
        with torch.inference_mode():
            logits = reference(torch.tensor([tokens + sampled])).logits[0, len(tokens) - 1 : -1]
        logps = torch.log_softmax(logits / heat, dim=-1)
        expected = logps[torch.arange(len(sampled)), torch.tensor(sampled)].tolist()
        assert done.logps.tolist() == pytest.approx(expected, abs=1e-4)


def test_a_seed_is_a_reply_whatever_else_is_asked(url: str) -> None:
    prompt = MessageFormat().opening([{"role": "user", "content": NEWS[0]}])

    async def ask(engine: OpenAIEngine) -> list[Completion]:
        together = await asyncio.gather(*(engine.generate(a_request(prompt, seed=seed % 5)) for seed in range(20)))
        return [*together, await engine.generate(a_request(prompt, seed=3))]

    replies = with_player(url, ask, model="main")
    for seed in range(5):
        same = [reply for number, reply in enumerate(replies[:20]) if number % 5 == seed]
        assert all((reply.tokens == same[0].tokens).all() for reply in same)
    assert (replies[20].tokens == replies[3].tokens).all()
    assert (replies[20].logps == replies[3].logps).all()


def test_tokens_are_counted_as_the_server_counts_them(url: str) -> None:
    prompt = MessageFormat().opening([{"role": "user", "content": NEWS[0]}])

    async def ask(engine: OpenAIEngine) -> OpenAIEngine:
        await engine.generate(a_request(prompt, seed=1))
        return engine

    counters = with_player(url, ask, completion_price=1.0).counters
    assert 1 <= counters.sampled_tokens <= 16
    assert counters.prompt_tokens > len(NEWS[0])
    assert counters.cost == pytest.approx(counters.sampled_tokens / 1e6)
