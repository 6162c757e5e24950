"""The vLLM engine on a real server: the engine's contract, several adapters in one batch, restarts and kills.

`make test-vllm` makes `.venv-vllm` and runs these; without it they are skipped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pytest
import torch

from ludus.config import LanguageModelConfig, LoraConfig
from ludus.config.sections.engines import VllmEngineConfig
from ludus.errors import PolicyError, TimeoutExceeded
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.inference.vllm.engine import VllmEngine
from ludus.lm.adapters import init_adapter
from ludus.lm.chat import ChatFormat
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.testing.engine_conformance import check_engine

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

T = TypeVar("T")


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


@pytest.fixture
def chat(published: Any) -> ChatFormat:
    return ChatFormat(published.model.tokenizer)


@pytest.fixture
def opening(chat: ChatFormat) -> tuple[int, ...]:
    return tuple(chat.opening([{"role": "user", "content": "Your move?"}]))


def with_engine(server: Any, published: Any, use: Callable[[VllmEngine], Awaitable[T]], **options: Any) -> T:
    async def work() -> T:
        config = VllmEngineConfig(kind="vllm", url=server.url, model="base")
        store = options.pop("store", published.store)
        engine = VllmEngine(config, store=store, **{"context": published.model.context, **options})
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(work())


def a_request(prompt: tuple[int, ...], version: int, **fields: Any) -> Request:
    sampling = fields.pop("sampling", Sampling(max_tokens=16))
    return Request(**{"prompt": prompt, "policy": main(version), "sampling": sampling, "seed": 1, **fields})


def expected_logps(published: Any, request: Request, completion: Completion) -> list[float]:
    """What transformers and peft give the sampled tokens."""
    tokens = torch.tensor([[*request.prompt, *completion.tokens.tolist()]])
    with torch.inference_mode():
        logits = published.reference(request.policy.version)(tokens).logits[0, len(request.prompt) - 1 : -1]
    logps = torch.log_softmax(logits / (request.sampling.temperature or 1.0), dim=-1)
    return [float(logps[place, token]) for place, token in enumerate(completion.tokens.tolist())]


def test_it_keeps_the_engines_contract(server: Any, published: Any) -> None:
    references = {main(version): published.reference(version) for version in range(4)}

    async def check(engine: VllmEngine) -> None:
        tokenizer, context = published.model.tokenizer, published.model.context
        await check_engine(engine, tokenizer, policies=list(references), context=context, references=references)

    with_engine(server, published, check, most_adapters=3)


# -- log-probabilities -------------------------------------------------------------------------------------------------


def test_log_probabilities_of_games_with_several_adapters_at_once_are_those_of_transformers(
    server: Any, published: Any, chat: ChatFormat, opening: tuple[int, ...]
) -> None:
    played: list[tuple[Request, Completion]] = []

    async def play(engine: VllmEngine, number: int) -> None:
        prompt = opening
        for turn, news in enumerate(("Taken. Another?", "And now?", "")):
            sampling = Sampling(max_tokens=12, temperature=(1.0, 0.7, 1.3)[turn], stop_tokens=chat.stop_tokens)
            request = a_request(prompt, number % 5, seed=10 * number + turn, sampling=sampling, session=str(number))
            done = await engine.generate(request)
            played.append((request, done))
            prompt += (*done.tokens.tolist(), *chat.reply(news, ended=done.finish == "stop"))

    async def play_all(engine: VllmEngine) -> None:
        await asyncio.gather(*(play(engine, number) for number in range(15)))

    with_engine(server, published, play_all)
    assert len(played) == 45
    for request, done in played:
        assert done.policy == request.policy
        assert done.logps.tolist() == pytest.approx(expected_logps(published, request, done), abs=1e-4)


def test_with_vllms_own_defaults_temperature_one_is_right_and_others_are_refused(
    raw_server: Any, published: Any, opening: tuple[int, ...]
) -> None:
    async def use(engine: VllmEngine) -> list[tuple[Request, Completion]]:
        with pytest.raises(
            PolicyError, match=r"temperature 1, not 0.7; start it with --logprobs-mode processed_logprobs"
        ):
            await engine.generate(a_request(opening, 1, sampling=Sampling(max_tokens=4, temperature=0.7)))
        kinds = [Sampling(max_tokens=20), Sampling(max_tokens=20, temperature=0), Sampling(max_tokens=20, top_p=0.8)]
        kinds += [Sampling(max_tokens=20, top_k=3)]
        requests = [a_request(opening, version, sampling=kind) for version in (1, 2) for kind in kinds]
        return [(request, await engine.generate(request)) for request in requests]

    for request, done in with_engine(raw_server, published, use):
        assert done.logps.tolist() == pytest.approx(expected_logps(published, request, done), abs=1e-4)


def test_the_likeliest_token_and_cuts_on_a_server_with_processed_log_probabilities(
    server: Any, published: Any, opening: tuple[int, ...]
) -> None:
    async def use(engine: VllmEngine) -> list[tuple[Request, Completion]]:
        with pytest.raises(PolicyError, match="before top_p and top_k"):
            await engine.generate(a_request(opening, 1, sampling=Sampling(max_tokens=4, top_p=0.8, temperature=0.7)))
        kinds = [Sampling(max_tokens=20, temperature=0), Sampling(max_tokens=20, top_p=0.8)]
        requests = [a_request(opening, 3, sampling=kind) for kind in [*kinds, Sampling(max_tokens=20, top_k=3)]]
        return [(request, await engine.generate(request)) for request in requests]

    completions = with_engine(server, published, use)
    for request, done in completions:
        assert done.logps.tolist() == pytest.approx(expected_logps(published, request, done), abs=1e-4)
    with torch.inference_mode():
        whole = published.reference(3).generate(
            torch.tensor([opening]), max_new_tokens=20, do_sample=False, eos_token_id=None
        )
    assert whole[0, len(opening) :].tolist() == completions[0][1].tokens.tolist()


# -- lengths, stops, seeds, limits -------------------------------------------------------------------------------------


def test_a_reply_ends_at_a_stop_token_which_is_part_of_it_and_nowhere_else(
    server: Any, published: Any, opening: tuple[int, ...]
) -> None:
    stops = frozenset(range(0, 256, 9))

    async def use(engine: VllmEngine) -> list[Completion]:
        sampling = Sampling(max_tokens=24, stop_tokens=stops)
        requests = [a_request(opening, 1, seed=seed, sampling=sampling) for seed in range(20)]
        return list(await asyncio.gather(*map(engine.generate, requests)))

    completions = with_engine(server, published, use)
    for done in completions:
        is_stop = [token in stops for token in done.tokens.tolist()]
        assert not any(is_stop[:-1])
        assert done.finish == ("stop" if is_stop[-1] else "length")
        assert is_stop[-1] or len(done.tokens) == 24
    assert {done.finish for done in completions} == {"stop", "length"}


def test_without_stop_tokens_not_even_the_models_own_end_stops_it(
    server: Any, published: Any, opening: tuple[int, ...]
) -> None:
    end = published.model.tokenizer.eos_token_id

    async def use(engine: VllmEngine) -> list[Completion]:
        requests = [a_request(opening, 0, seed=seed, sampling=Sampling(max_tokens=150)) for seed in range(12)]
        return list(await asyncio.gather(*map(engine.generate, requests)))

    completions = with_engine(server, published, use)
    assert all(len(done.tokens) == 150 and done.finish == "length" for done in completions)
    assert any(end in done.tokens[:-1] for done in completions)


def test_a_seed_gives_the_same_reply_and_another_another(server: Any, published: Any, opening: tuple[int, ...]) -> None:
    async def use(engine: VllmEngine) -> list[Completion]:
        return [await engine.generate(a_request(opening, 2, seed=seed)) for seed in (5, 5, 6)]

    first, again, other = with_engine(server, published, use)
    assert first.tokens.tolist() == again.tokens.tolist() != other.tokens.tolist()


def test_what_does_not_fit_the_context_is_refused(server: Any, published: Any, opening: tuple[int, ...]) -> None:
    async def use(engine: VllmEngine) -> None:
        for tokens in (257, 300):
            with pytest.raises(PolicyError, match="the context holds 256"):
                await engine.generate(a_request((65,) * tokens, 1))
        room = 256 - len(opening)
        done = await engine.generate(a_request(opening, 1, sampling=Sampling(max_tokens=room)))
        assert len(done.tokens) == room

    with_engine(server, published, use, context=100_000)


def test_a_deadline_that_passes_is_an_error_and_the_server_goes_on(
    server: Any, published: Any, opening: tuple[int, ...]
) -> None:
    async def use(engine: VllmEngine) -> None:
        await engine.generate(a_request(opening, 1))
        late = [a_request(opening, 1, seed=i, deadline_s=0.05, sampling=Sampling(max_tokens=200)) for i in range(8)]
        failures = await asyncio.gather(*map(engine.generate, late), return_exceptions=True)
        assert [type(failure) for failure in failures] == [TimeoutExceeded] * 8
        assert len((await engine.generate(a_request(opening, 1))).tokens) == 16
        assert engine.counters.failed == 8

    with_engine(server, published, use)


# -- adapters ----------------------------------------------------------------------------------------------------------


def test_more_versions_than_the_server_keeps_come_and_go(server: Any, published: Any, opening: tuple[int, ...]) -> None:
    async def use(engine: VllmEngine) -> list[tuple[Request, Completion]]:
        requests = [a_request(opening, version, seed=n) for n, version in enumerate((0, 1, 2, 3, 4, 0, 2, 4, 1))]
        return [(request, await engine.generate(request)) for request in requests]

    for request, done in with_engine(server, published, use, most_adapters=2):
        assert done.logps.tolist() == pytest.approx(expected_logps(published, request, done), abs=1e-4)


def test_a_version_that_the_server_does_not_take_costs_only_itself(
    server: Any, published: Any, opening: tuple[int, ...], tmp_path: Any
) -> None:
    config = LanguageModelConfig(path=str(published.model.folder), lora=LoraConfig(rank=16))
    assert config.lora is not None
    store = PolicyStore(tmp_path / "policies")
    shape = LanguageModelShape(model=config, critic=False, games=())
    store.publish(main(1), init_adapter(published.model.model, config.lora, seed=0), shape, step=0)

    async def use(engine: VllmEngine) -> None:
        with pytest.raises(PolicyError, match=r"vLLM does not load main@1: .*rank"):
            await engine.generate(a_request(opening, 1))
        with pytest.raises(PolicyError, match="no policy main@7"):
            await engine.generate(a_request(opening, 7))

    with_engine(server, published, use, store=store)
    with_engine(server, published, lambda engine: engine.generate(a_request(opening, 1)))


def test_the_base_model_without_adapters(server: Any, published: Any, opening: tuple[int, ...]) -> None:
    request = a_request(opening, 0)
    done = with_engine(server, published, lambda engine: engine.generate(request), store=None)
    assert done.logps.tolist() == pytest.approx(expected_logps(published, request, done), abs=1e-4)


# -- kills -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mortal_server(server: Any) -> Iterator[Any]:
    """The server, running again afterwards."""
    yield server
    if not server.is_running:
        server.start()


def test_a_killed_server_fails_what_is_in_flight_and_works_again_once_it_is_back(
    mortal_server: Any, published: Any, opening: tuple[int, ...]
) -> None:
    async def use(engine: VllmEngine) -> tuple[list[Any], Completion, Completion]:
        before = await engine.generate(a_request(opening, 2))
        slow = [a_request(opening, 2, seed=i, sampling=Sampling(max_tokens=200)) for i in range(16)]
        asked = [asyncio.ensure_future(engine.generate(request)) for request in slow]
        while engine.counters.requests < 17:
            await asyncio.sleep(0)
        mortal_server.kill()
        started = time.monotonic()
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert time.monotonic() - started < 30
        await asyncio.to_thread(mortal_server.start)
        return failures, before, await engine.generate(a_request(opening, 2))

    failures, before, after = with_engine(mortal_server, published, use, retries=2)
    assert all(isinstance(failure, PolicyError) for failure in failures)
    assert "is it running?" in str(failures[0])
    assert before.tokens.tolist() == after.tokens.tolist()
    assert np.allclose(before.logps, after.logps, atol=1e-5)
