"""What the local engine promises beyond the contract of all engines: versions, values, reuse, room, and what fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_models import CONTEXT, LORA, ask, main, random_adapter
from numpy.typing import NDArray

from ludus.config import LanguageModelConfig
from ludus.errors import PolicyError, TimeoutExceeded
from ludus.inference.local.engine import LocalEngine
from ludus.inference.protocol import Completion, Request
from ludus.lm.language_models import LanguageModel
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef

MakeEngine = Callable[..., LocalEngine]
Adapters = Mapping[PolicyRef, dict[str, NDArray[Any]]]
PROMPT = tuple(range(40, 90))


def answer(engine: LocalEngine, *requests: Request) -> list[Completion]:
    async def write() -> list[Completion]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(write())


@pytest.fixture
def store(tmp_path: Path, tiny: LanguageModel, adapters: Adapters) -> PolicyStore:
    """A store with the first of the versions."""
    store = PolicyStore(tmp_path / "policies")
    store.publish(main(0), adapters[main(0)], shape_of(tiny), step=0)
    return store


def shape_of(tiny: LanguageModel) -> LanguageModelShape:
    return LanguageModelShape(model=LanguageModelConfig(path=tiny.path, lora=LORA), critic=True, games=("g",))


# Versions


def test_versions_are_read_from_the_store_when_first_asked_for(
    store: PolicyStore, tiny: LanguageModel, adapters: Adapters, make_engine: MakeEngine
) -> None:
    engine = LocalEngine(tiny, store=store, lora=LORA)
    (first,) = answer(engine, ask(PROMPT))
    with pytest.raises(PolicyError, match=r"main@1 cannot be loaded: no policy main@1 in .*; there are: main@0"):
        answer(engine, ask(PROMPT, policy=main(1)))
    store.publish(main(1), adapters[main(1)], shape_of(tiny), step=1)
    (second,) = answer(engine, ask(PROMPT, policy=main(1)))
    for found, expected in zip(
        (first, second), answer(make_engine(), *(ask(PROMPT, policy=main(v)) for v in (0, 1))), strict=True
    ):
        assert found.tokens.tolist() == expected.tokens.tolist()
        assert found.policy == expected.policy


def test_a_new_version_joins_games_in_flight_and_each_completion_says_who_wrote_it(
    store: PolicyStore, tiny: LanguageModel, adapters: Adapters
) -> None:
    engine = LocalEngine(tiny, store=store, lora=LORA)

    async def play() -> tuple[Completion, Completion]:
        old = asyncio.ensure_future(engine.generate(ask(PROMPT, max_tokens=60)))
        for _ in range(5):
            await asyncio.sleep(0)
        store.publish(main(1), adapters[main(1)], shape_of(tiny), step=1)
        new = await engine.generate(ask(PROMPT, policy=main(1)))
        assert not old.done()
        return await old, new

    old, new = asyncio.run(play())
    assert (old.policy, new.policy) == (main(0), main(1))


def test_versions_nobody_uses_are_given_up_beyond_the_limit(
    store: PolicyStore, tiny: LanguageModel, adapters: Adapters
) -> None:
    for version in (1, 2):
        store.publish(main(version), adapters[main(version)], shape_of(tiny), step=version)
    engine = LocalEngine(tiny, store=store, lora=LORA, max_versions=2)
    before = answer(engine, ask(PROMPT, policy=main(0)))[0]
    answer(engine, ask(PROMPT, policy=main(1)), ask(PROMPT, policy=main(2)))
    assert list(engine._versions._loaded) == [main(1), main(2)]
    answer(engine, ask(PROMPT, policy=main(1)))
    again = answer(engine, ask(PROMPT, policy=main(0)))[0]
    assert list(engine._versions._loaded) == [main(1), main(0)]
    assert again.logps.tobytes() == before.logps.tobytes()


def test_a_version_that_was_never_added_is_unknown(make_engine: MakeEngine) -> None:
    with pytest.raises(PolicyError, match=r"this engine has no policy main@7; it has: main@0, main@1, main@2"):
        answer(make_engine(), ask(PROMPT, policy=main(7)))


def test_what_a_replaced_version_computed_is_not_found_again(make_engine: MakeEngine, tiny: LanguageModel) -> None:
    engine = make_engine()
    first = answer(engine, ask(PROMPT, session="s"))[0]
    engine.add_version(main(0), random_adapter(tiny.model, 77))
    second = answer(engine, ask(PROMPT, session="s"))[0]
    assert np.abs(first.logps - second.logps).max() > 1e-3
    assert engine.counters.reused_tokens == 0


def test_a_version_in_use_cannot_be_replaced(make_engine: MakeEngine) -> None:
    engine = make_engine()

    async def play() -> None:
        flying = asyncio.ensure_future(engine.generate(ask(PROMPT, max_tokens=50)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(PolicyError, match="main@0 is being used"):
            engine.add_version(main(0), {})
        await flying

    asyncio.run(play())


def test_an_adapter_that_does_not_fit_is_refused_and_others_go_on(
    store: PolicyStore, tiny: LanguageModel, adapters: Adapters
) -> None:
    wrong = random_adapter(tiny.model, 0, lora=LORA.model_copy(update={"rank": 3}))
    critic = {name: tensor for name, tensor in adapters[main(0)].items() if name.startswith("value_head")}
    store.publish(main(1), wrong | critic, shape_of(tiny), step=1)
    engine = LocalEngine(tiny, store=store, lora=LORA)
    with pytest.raises(PolicyError, match=r"main@1 does not fit the model: .*lora_A.weight has shape \[3, 64\]"):
        answer(engine, ask(PROMPT, policy=main(1)))
    assert len(answer(engine, ask(PROMPT))[0].tokens) == 8


def test_a_critic_that_does_not_fit_is_refused(tiny: LanguageModel, adapters: Adapters) -> None:
    engine = LocalEngine(tiny, lora=LORA)
    wrong = adapters[main(0)] | {"value_head.weight": np.zeros((1, 65), np.float32)}
    with pytest.raises(PolicyError, match=r"value_head.weight has shape \[1, 65\], the model needs \[1, 64\]"):
        engine.add_version(main(0), wrong)


# Values


def test_values_are_the_critics_estimates_before_each_token(
    make_engine: MakeEngine, adapters: Adapters, references: dict[PolicyRef, Any]
) -> None:
    requests = [ask(PROMPT, policy=main(version), max_tokens=20) for version in range(3)]
    for request, completion in zip(requests, answer(make_engine(), *requests), strict=True):
        with torch.inference_mode():
            whole = torch.tensor([[*PROMPT, *completion.tokens.tolist()]])
            out = references[request.policy](whole, output_hidden_states=True)
        hidden = out.hidden_states[-1][0, len(PROMPT) - 1 : -1].numpy()
        head = adapters[request.policy]
        expected = hidden @ head["value_head.weight"][0] + head["value_head.bias"]
        np.testing.assert_allclose(completion.values, expected, atol=1e-4)


def test_without_a_critic_values_are_zeros(tiny: LanguageModel) -> None:
    engine = LocalEngine(tiny)
    engine.add_version(main(0), {})
    assert not answer(engine, ask(PROMPT))[0].values.any()


# Reuse


def test_turns_of_a_session_compute_only_what_is_new(make_engine: MakeEngine) -> None:
    engine = make_engine()
    history = list(PROMPT)
    for turn in range(3):
        before = engine.counters.reused_tokens
        completion = answer(engine, ask(history, session="game", seed=turn, max_tokens=5))[0]
        # All of the turn before but its last token, which was drawn and never computed.
        assert engine.counters.reused_tokens - before == (len(history) - 8 if turn else 0)
        history += [*completion.tokens.tolist(), *range(7)]
    assert engine._pool.used > 0
    engine.end_session("game")
    assert engine._pool.used == 0


def test_a_session_that_changes_its_mind_does_not_change_what_others_find(make_engine: MakeEngine) -> None:
    engine = make_engine()
    expected = answer(make_engine(), ask(PROMPT))[0]
    answer(engine, ask(PROMPT, session="game"))
    # Within a block that others can find, and within the one that is the session's own.
    for place in (20, 49):
        answer(engine, ask([*PROMPT[:place], 7, 7, 7, 7], session="game"))
        found = answer(engine, ask(PROMPT))[0]
        assert found.logps.tobytes() == expected.logps.tobytes()
        answer(engine, ask(PROMPT, session="game"))


def test_the_last_turn_keeps_nothing(make_engine: MakeEngine) -> None:
    engine = make_engine()
    answer(engine, ask(PROMPT, session="game", is_last=True))
    assert engine._pool.used == 0


def test_another_version_does_not_go_on_from_what_one_computed(make_engine: MakeEngine) -> None:
    engine = make_engine()
    answer(engine, ask(PROMPT, session="game"))
    answer(engine, ask(PROMPT, session="game", policy=main(1)))
    assert engine.counters.reused_tokens == 0


def test_prompts_with_the_same_beginning_compute_it_once_even_if_they_come_at_once(make_engine: MakeEngine) -> None:
    engine = make_engine(prefill_tokens=20)
    requests = [ask([*PROMPT, 100 + number, 7], seed=number, session=f"s{number}") for number in range(10)]
    answer(engine, *requests)
    # Blocks of 16: 48 of the 50 common tokens.
    assert engine.counters.reused_tokens == 9 * 48


def test_equal_prompts_with_different_limits_share_their_computation(make_engine: MakeEngine) -> None:
    engine = make_engine()
    completions = answer(engine, *(ask(PROMPT, seed=3, max_tokens=1 + number) for number in range(6)))
    assert engine.counters.reused_tokens == 5 * len(PROMPT)
    longest = completions[-1]
    for number, completion in enumerate(completions):
        assert completion.tokens.tolist() == longest.tokens[: number + 1].tolist()


def test_what_is_kept_makes_room_for_what_is_asked(make_engine: MakeEngine) -> None:
    engine = make_engine(cache_bytes=0)
    for number in range(12):
        answer(engine, ask([number] * 200, session=f"s{number}", max_tokens=30))
    first = answer(engine, ask([0] * 200, session="s0", max_tokens=30))[0]
    fresh = answer(make_engine(), ask([0] * 200, max_tokens=30))[0]
    assert first.logps.tobytes() == fresh.logps.tobytes()


def test_requests_beyond_the_room_wait_for_it_in_the_order_they_came(make_engine: MakeEngine) -> None:
    engine = make_engine(cache_bytes=0)
    order: list[int] = []

    async def write(number: int) -> None:
        await engine.generate(ask([number] * 200, max_tokens=10 if number % 2 else 40))
        order.append(number)

    async def write_all() -> None:
        await asyncio.gather(*(write(number) for number in range(12)))

    asyncio.run(write_all())
    assert sorted(order) == list(range(12))
    assert order.index(0) < 4


def test_prompts_are_computed_in_the_order_they_came_whichever_version_they_are_for(make_engine: MakeEngine) -> None:
    engine = make_engine(prefill_tokens=50)
    order: list[int] = []

    async def write(number: int, version: int) -> None:
        await engine.generate(ask([number] * 200, max_tokens=1, policy=main(version)))
        order.append(number)

    async def write_all() -> None:
        await asyncio.gather(*(write(number, 1 if number == 3 else 0) for number in range(8)))

    asyncio.run(write_all())
    assert order == list(range(8))


def test_one_request_always_finds_room(tiny: LanguageModel) -> None:
    engine = LocalEngine(tiny, cache_bytes=0)
    engine.add_version(main(0), {})
    answer(engine, ask([1] * (CONTEXT - 1), max_tokens=1))
    assert len(answer(engine, ask([1], max_tokens=CONTEXT - 1))[0].tokens) == CONTEXT - 1


# What fails


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_leader_that_is_given_up_leaves_its_followers_what_it_computed(make_engine: MakeEngine, steps: int) -> None:
    engine = make_engine(prefill_tokens=10)
    prompt = range(100, 163)
    expected = answer(make_engine(), ask(prompt, seed=1))[0]

    async def play() -> Completion:
        leader = asyncio.ensure_future(engine.generate(ask(prompt, seed=0)))
        follower = asyncio.ensure_future(engine.generate(ask(prompt, seed=1)))
        for _ in range(steps):
            await asyncio.sleep(0)
        leader.cancel()
        return await follower

    assert asyncio.run(play()).logps.tobytes() == expected.logps.tobytes()
    assert engine._pool.used == 0


def test_a_request_that_waits_past_its_deadline_fails_alone(make_engine: MakeEngine) -> None:
    engine = make_engine(max_batch=1)

    async def play() -> Completion:
        first = asyncio.ensure_future(engine.generate(ask(PROMPT, max_tokens=150)))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutExceeded, match=r"main@1 did not answer within 0\.001 s"):
            await engine.generate(ask(PROMPT, policy=main(1), deadline_s=0.001))
        return await first

    assert len(asyncio.run(play()).tokens) == 150
    assert engine._pool.used == 0
    assert (engine.counters.requests, engine.counters.completed, engine.counters.failed) == (2, 1, 1)


def test_a_policy_that_diverged_fails_its_own_requests_and_nobody_elses(
    make_engine: MakeEngine, adapters: Adapters
) -> None:
    engine = make_engine(cache_bytes=0)
    broken = {name: np.full_like(tensor, np.nan) for name, tensor in adapters[main(0)].items()}
    engine.add_version(main(9), broken)
    expected = answer(make_engine(), ask(PROMPT, policy=main(1), max_tokens=40))[0]

    async def play() -> list[Any]:
        bad = [ask([*PROMPT, number], policy=main(9)) for number in range(8)]
        good = [ask(PROMPT, policy=main(1), max_tokens=40) for _ in range(3)]
        return await asyncio.gather(*(engine.generate(one) for one in [*bad, *good]), return_exceptions=True)

    for _ in range(2):
        before = engine.counters.sampled_tokens
        *failed, one, two, three = asyncio.run(play())
        assert engine.counters.sampled_tokens - before == 8 + 3 * 40
        assert {str(error) for error in failed} == {"main@9 gives log-probabilities that are not finite numbers"}
        assert {one.logps.tobytes(), two.logps.tobytes(), three.logps.tobytes()} == {expected.logps.tobytes()}
    assert engine._pool.used == 0


def test_requests_that_make_no_sense_are_refused_each_with_its_reason(make_engine: MakeEngine) -> None:
    engine = make_engine()
    cases = {
        "the prompt is empty": ask([]),
        "the prompt has a token 259, and the model knows 0 to 258": ask([1, 259]),
        "the prompt has a token -1": ask([-1]),
        "max_tokens is 0": ask(PROMPT, max_tokens=0),
        "temperature -1, top_p 1 and top_k 0": ask(PROMPT, temperature=-1.0),
        "temperature 1, top_p 0 and top_k 0": ask(PROMPT, top_p=0.0),
        "but the context holds 256": ask(PROMPT, max_tokens=207),
        "this engine has no policy guest@0": ask(PROMPT, policy=PolicyRef(name=PolicyName("guest"))),
    }
    for reason, request in cases.items():
        with pytest.raises(PolicyError, match=reason):
            answer(engine, request)
    assert engine.counters.failed == len(cases)


def test_closing_fails_what_is_in_flight_and_what_waits(make_engine: MakeEngine) -> None:
    engine = make_engine(max_batch=2)

    async def play() -> list[Any]:
        tasks = [asyncio.ensure_future(engine.generate(ask(PROMPT, max_tokens=90, seed=n))) for n in range(5)]
        for _ in range(6):
            await asyncio.sleep(0)
        await engine.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert {str(error) for error in asyncio.run(play())} == {"the engine was closed"}
    assert engine._pool.used == 0


def test_an_error_in_a_step_reaches_every_request(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()

    def fail(rows: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine._model, "forward", fail)

    async def play() -> list[Any]:
        return await asyncio.gather(*(engine.generate(ask(PROMPT, seed=n)) for n in range(3)), return_exceptions=True)

    assert {str(error) for error in asyncio.run(play())} == {"out of memory"}
    monkeypatch.undo()
    assert len(answer(engine, ask(PROMPT))[0].tokens) == 8


def test_games_take_turns_with_the_engine_between_steps(make_engine: MakeEngine) -> None:
    """Others in the event loop are never kept waiting for longer than a step."""
    engine = make_engine()

    async def play() -> tuple[int, Completion]:
        turns = 0
        flying = asyncio.ensure_future(engine.generate(ask(PROMPT, max_tokens=100)))
        while not flying.done():
            turns += 1
            await asyncio.sleep(0)
        return turns, await flying

    assert asyncio.run(play())[0] >= 100
