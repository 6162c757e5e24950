"""What tests of workflows share: tasks, an engine that says what it is told to, and a way to run everything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ludus.errors import Unreachable
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.inference.protocol import Completion, EngineCounters, Request
from ludus.lm.chat import ChatFormat
from ludus.records import EpisodeBatch, Experiences, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId

MAIN = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))
Say = Callable[[str], str]


def attempt(number: int = 0, *, learns: bool = True, greedy: bool = False, **inputs: Any) -> Task:
    return Task(
        id=TaskId(number),
        game="tasks:test",
        seed=1000 + number,
        seats=(Seat(policy=MAIN, learns=learns, greedy=greedy),),
        group=f"g{number // 4}",
        inputs={"prompt": "2+2=", "answer": "4", "row": number, "group_seed": number // 4, **inputs},
    )


def run(runner: LanguageRunner, tasks: Sequence[Task]) -> EpisodeBatch:
    runner.submit(tasks)
    while not runner.is_idle:
        runner.step()
    return runner.harvest()


def part(rows: Experiences, row: int, name: str) -> Any:
    """One sequence of a step column."""
    return rows.steps[name][rows.offsets[row] : rows.offsets[row + 1]]


class ParrotEngine:
    """Says what a function of the prompt's text says. Log-probabilities count the tokens: -1, -2, ..."""

    is_repeatable = True

    def __init__(self, chat: ChatFormat, say: Say) -> None:
        self.counters = EngineCounters()
        self.requests: list[Request] = []
        self.ended: list[str] = []
        self._chat = chat
        self._say = say

    async def generate(self, request: Request) -> Completion:
        self.requests.append(request)
        await asyncio.sleep(0)
        tokens = np.array(self._chat.encode_reply(self._say(self._chat.decode(list(request.prompt)))), np.int32)
        is_cut = len(tokens) > request.sampling.max_tokens
        tokens = tokens[: request.sampling.max_tokens]
        return Completion(
            tokens=tokens,
            logps=-np.arange(1, len(tokens) + 1, dtype=np.float32),
            values=np.zeros(len(tokens), np.float32),
            policy=request.policy,
            finish="length" if is_cut else "stop",
        )

    def end_session(self, session: str) -> None:
        self.ended.append(session)

    async def close(self) -> None:
        pass


def be_away(engine: Any, *, first: int, requests: int) -> None:
    """Be out of reach for some requests, of which the first is the n-th."""
    generate, asked = engine.generate, iter(range(1, 10**9))

    async def away(request: Any) -> Any:
        if next(asked) in range(first, first + requests):
            raise Unreachable("http://engine/v1 cannot be reached (it was killed); is it running?")
        return await generate(request)

    engine.generate = away


def listen(engine: Any) -> list[tuple[Request, Completion]]:
    """What an engine is asked from now on, and what it answers."""
    heard: list[tuple[Request, Completion]] = []
    generate = engine.generate

    async def listening(request: Request) -> Completion:
        completion = await generate(request)
        heard.append((request, completion))
        return completion

    engine.generate = listening
    return heard


def sampled(rows: Experiences, row: int) -> list[tuple[list[int], list[int], list[float]]]:
    """The replies of a sequence: all tokens before it, its tokens, their log-probabilities."""
    tokens, mask, logps = (part(rows, row, name) for name in ("action", "mask", "logp"))
    edges = np.flatnonzero(np.diff([0, *mask.astype(int), 0]))
    return [
        (tokens[:start].tolist(), tokens[start:end].tolist(), logps[start:end].tolist())
        for start, end in edges.reshape(-1, 2).tolist()
    ]


Make = Callable[..., tuple[LanguageRunner, ParrotEngine]]
