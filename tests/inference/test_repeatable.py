"""With the same prompt, policy and seed the local engine writes the same bits, whatever else it does, did or holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from engine_models import ask, main
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.inference.local.engine import LocalEngine
from ludus.inference.protocol import Completion, Request

MakeEngine = Callable[..., LocalEngine]
RNG = np.random.default_rng(11)
PROMPTS = [tuple(RNG.integers(0, 256, length).tolist()) for length in (1, 3, 15, 16, 17, 32, 50, 97, 120)]
WANTED = [
    ask(PROMPTS[number % 9], max_tokens=3 + 4 * (number % 7), seed=number, policy=main(number % 3), temperature=0.9)
    for number in range(27)
]


def bits(completion: Completion) -> tuple[bytes, bytes, bytes]:
    return completion.tokens.tobytes(), completion.logps.tobytes(), completion.values.tobytes()


def one_by_one(engine: LocalEngine, requests: Iterable[Request]) -> list[tuple[bytes, bytes, bytes]]:
    async def write() -> list[tuple[bytes, bytes, bytes]]:
        return [bits(await engine.generate(request)) for request in requests]

    return asyncio.run(write())


def together(engine: LocalEngine, requests: Iterable[Request]) -> list[tuple[bytes, bytes, bytes]]:
    async def write() -> list[tuple[bytes, bytes, bytes]]:
        return [bits(one) for one in await asyncio.gather(*(engine.generate(request) for request in requests))]

    return asyncio.run(write())


@pytest.fixture(scope="module", params=[True, False], ids=["merged", "beside the base"])
def merge(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def expected(make_engine: MakeEngine, merge: bool) -> list[tuple[bytes, bytes, bytes]]:
    """Each request by itself, on an engine that has never seen another."""
    return [one_by_one(make_engine(merge_adapters=merge), [request])[0] for request in WANTED]


@pytest.fixture(scope="module")
def calm(make_engine: MakeEngine) -> list[tuple[bytes, bytes, bytes]]:
    return together(make_engine(), WANTED)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_batch": 1},
        {"max_batch": 3, "prefill_tokens": 1},
        {"max_batch": 64, "prefill_tokens": 5},
        {"max_batch": 7, "prefill_tokens": 33},
        {"cache_bytes": 0},
        {"max_versions": 0},
    ],
    ids=str,
)
def test_company_chunks_and_room_do_not_show(
    make_engine: MakeEngine, merge: bool, options: dict[str, Any], expected: list[tuple[bytes, bytes, bytes]]
) -> None:
    engine = make_engine(merge_adapters=merge, **options)
    assert engine.is_repeatable
    assert together(engine, WANTED) == expected
    assert together(engine, reversed(WANTED)) == expected[::-1]


def test_prompts_that_are_in_the_cache_give_the_same_bits(
    make_engine: MakeEngine, merge: bool, expected: list[tuple[bytes, bytes, bytes]]
) -> None:
    engine = make_engine(merge_adapters=merge)
    assert one_by_one(engine, WANTED) == expected
    prompts, reused = engine.counters.prompt_tokens, engine.counters.reused_tokens
    assert one_by_one(engine, WANTED) == expected
    assert engine.counters.reused_tokens - reused > 0.8 * prompts


def test_a_group_that_shares_its_prompt_gets_what_each_would_get_alone(make_engine: MakeEngine, merge: bool) -> None:
    group = [ask(PROMPTS[6], seed=seed, max_tokens=9) for seed in range(12)]
    alone = [one_by_one(make_engine(merge_adapters=merge), [request])[0] for request in group]
    engine = make_engine(merge_adapters=merge)
    assert together(engine, group) == alone
    assert engine.counters.reused_tokens == 11 * len(PROMPTS[6])
    assert len(set(alone)) == 12


def test_turns_of_a_session_are_what_they_would_be_on_a_fresh_engine(make_engine: MakeEngine, merge: bool) -> None:
    engine = make_engine(merge_adapters=merge)
    asked: list[tuple[Request, tuple[bytes, bytes, bytes]]] = []

    async def game(number: int) -> None:
        history = list(PROMPTS[2 + number])
        for turn in range(3):
            request = ask(history, seed=turn, max_tokens=2 + number, session=f"game {number}", policy=main(number % 3))
            completion = await engine.generate(request)
            asked.append((request, bits(completion)))
            history += [*completion.tokens.tolist(), *PROMPTS[(number + turn) % 3]]

    async def games() -> None:
        await asyncio.gather(*(game(number) for number in range(6)))

    asyncio.run(games())
    assert engine.counters.reused_tokens > engine.counters.prompt_tokens / 2
    for request, found in asked:
        assert one_by_one(make_engine(merge_adapters=merge), [request]) == [found]


@settings(max_examples=12)
@given(data=st.data())
def test_any_order_of_arrivals_and_cancellations_gives_the_same_bits(
    make_engine: MakeEngine, calm: list[tuple[bytes, bytes, bytes]], data: st.DataObject
) -> None:
    """Requests arrive after any number of steps, some are given up on the way: what the others get does not change."""
    engine = make_engine(max_batch=data.draw(st.integers(1, 9)), prefill_tokens=data.draw(st.integers(1, 60)))
    delays = data.draw(st.lists(st.integers(0, 30), min_size=27, max_size=27))
    given_up = data.draw(st.sets(st.integers(0, 26), max_size=9))

    async def later(number: int) -> tuple[bytes, bytes, bytes] | None:
        for _ in range(delays[number]):
            await asyncio.sleep(0)
        task = asyncio.ensure_future(engine.generate(WANTED[number]))
        if number in given_up:
            for _ in range(delays[-1 - number] // 2):
                await asyncio.sleep(0)
            task.cancel()
        try:
            return bits(await task)
        except asyncio.CancelledError:
            return None

    async def all_of_them() -> Sequence[tuple[bytes, bytes, bytes] | None]:
        return await asyncio.gather(*(later(number) for number in range(27)))

    results = asyncio.run(all_of_them())
    for number, result in enumerate(results):
        assert result == calm[number] or (result is None and number in given_up)
    assert engine._pool.used == 0
