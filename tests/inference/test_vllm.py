"""The vLLM engine against a server that behaves as vLLM does: adapters, log-probabilities, restarts, refusals.

tests/vllm runs the same engine against the real server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from starlette.responses import JSONResponse

sys.path.insert(0, str(Path(__file__).parent))

from fake_vllm import CONTEXT, WORDS, fake_vllm, log_softmax, next_logits
from scripted_endpoint import Answer, never, refuses, scripted, unused_port, writes

from ludus.config import LanguageModelConfig, LoraConfig
from ludus.config.sections.engines import VllmEngineConfig
from ludus.errors import PolicyError, TimeoutExceeded, Unreachable
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.inference.vllm.engine import VllmEngine
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.testing.engine_conformance import check_engine

T = TypeVar("T")
LAYER = "base_model.model.model.layers.0.self_attn.q_proj"
STOP = frozenset({5})


def main(version: int = 0) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def shift(version: int) -> float:
    """What a version's adapter adds up to, which is what it does to the fake model."""
    return 0.5 * version


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    """Versions 0 to 5 of `main`, whose adapters do different things."""
    shape = LanguageModelShape(model=LanguageModelConfig(path="m", lora=LoraConfig(rank=1)), critic=False, games=("g",))
    store = PolicyStore(tmp_path / "policies")
    for version in range(6):
        weights: dict[str, NDArray[Any]] = {
            f"{LAYER}.lora_A.weight": np.full((1, 4), shift(version) / 4, np.float32),
            f"{LAYER}.lora_B.weight": np.zeros((4, 1), np.float32),
        }
        store.publish(main(version), weights, shape, step=version)
    return store


def a_request(version: int = 0, **fields: Any) -> Request:
    sampling = fields.pop("sampling", Sampling(max_tokens=12, stop_tokens=STOP))
    return Request(**{"prompt": (1, 2, 3), "policy": main(version), "sampling": sampling, "seed": 7, **fields})


def with_engine(url: str, store: PolicyStore | None, use: Callable[[VllmEngine], Awaitable[T]], **options: Any) -> T:
    async def work() -> T:
        config = VllmEngineConfig(kind="vllm", url=url, model=options.pop("model", "base"))
        engine = VllmEngine(config, store=store, **{"context": CONTEXT, "backoff_s": 0.001, **options})
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(work())


def generate(url: str, store: PolicyStore | None, request: Request, **options: Any) -> Completion:
    return with_engine(url, store, lambda engine: engine.generate(request), **options)


def expected_logps(completion: Completion, prompt: tuple[int, ...], strength: float, heat: float = 1.0) -> list[float]:
    tokens = [*prompt, *completion.tokens.tolist()]
    return [
        float(log_softmax(next_logits(tokens[place - 1], strength) / heat)[tokens[place]])
        for place in range(len(prompt), len(tokens))
    ]


class Words:
    """A tokenizer for the fake's few tokens."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [byte % WORDS for byte in text.encode()]


class Reference:
    """The fake's model as transformers would run it."""

    device = torch.device("cpu")

    def __init__(self, strength: float) -> None:
        self._strength = strength

    def __call__(self, tokens: torch.Tensor) -> Any:
        rows = np.stack([next_logits(int(token), self._strength) for token in tokens[0]])
        return SimpleNamespace(logits=torch.tensor(rows)[None])


def test_it_keeps_the_engines_contract(store: PolicyStore) -> None:
    async def check(engine: VllmEngine) -> None:
        references = {main(version): Reference(shift(version)) for version in range(4)}
        await check_engine(engine, Words(), policies=list(references), context=CONTEXT, references=references)

    with fake_vllm(processed=True) as server:
        with_engine(server.url, store, check, most_adapters=2)


# -- what it does ------------------------------------------------------------------------------------------------------


def test_each_version_answers_with_its_own_adapter_and_log_probabilities(store: PolicyStore) -> None:
    async def ask_all(engine: VllmEngine) -> list[Completion]:
        return list(await asyncio.gather(*(engine.generate(a_request(i % 4, seed=i)) for i in range(40))))

    with fake_vllm() as server:
        completions = with_engine(server.url, store, ask_all)
    for number, completion in enumerate(completions):
        assert completion.policy == main(number % 4)
        assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), shift(number % 4)), abs=1e-5)
        assert completion.finish == ("stop" if completion.tokens[-1] in STOP else "length")
        assert not completion.values.any()
    assert {completion.finish for completion in completions} == {"stop", "length"}
    assert sorted(server.log) == sorted({line for line in server.log if line.startswith("load")})


def test_everything_that_shapes_the_distribution_is_said(store: PolicyStore) -> None:
    sampling = Sampling(max_tokens=4, top_p=0.9, top_k=3, stop_tokens=frozenset({9, 5}))
    with fake_vllm() as server:
        generate(server.url, store, a_request(sampling=sampling, seed=2**63 + 5))
    body = server.bodies[-1]
    assert body["prompt"] == [1, 2, 3]
    assert body["stop_token_ids"] == [5, 9]
    assert body["seed"] == 5
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (1.0, 0.9, 3, 0.0)
    assert (body["repetition_penalty"], body["presence_penalty"], body["frequency_penalty"]) == (1.0, 0.0, 0.0)
    assert body["ignore_eos"] is True


def test_without_a_store_every_policy_is_the_base() -> None:
    with fake_vllm() as server:
        completion = generate(server.url, None, a_request(3))
    assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), 0.0), abs=1e-5)
    assert server.log == []


def test_counters_say_what_was_done(store: PolicyStore) -> None:
    async def use(engine: VllmEngine) -> VllmEngine:
        await engine.generate(a_request())
        with pytest.raises(PolicyError):
            await engine.generate(a_request(77))
        return engine

    with fake_vllm() as server:
        counters = with_engine(server.url, store, use).counters
    assert (counters.requests, counters.completed, counters.failed) == (2, 1, 1)
    assert (counters.prompt_tokens, counters.reused_tokens) == (3, 3)
    assert 1 <= counters.sampled_tokens <= 12


# -- adapters ----------------------------------------------------------------------------------------------------------


def test_the_least_used_adapters_are_unloaded_and_come_back_when_asked_for(store: PolicyStore) -> None:
    async def use(engine: VllmEngine) -> None:
        for version in (0, 1, 2, 0, 3, 1):
            completion = await engine.generate(a_request(version))
            assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), shift(version)), abs=1e-5)

    with fake_vllm() as server:
        with_engine(server.url, store, use, most_adapters=2)
        assert len(server.adapters) == 2
    versions = [line.partition("@")[0].split()[0] + " " + line.partition("@")[2][0] for line in server.log]
    assert versions == [
        "load 0",
        "load 1",
        "load 2",
        "unload 0",
        "load 0",
        "unload 1",
        "load 3",
        "unload 2",
        "load 1",
        "unload 0",
    ]


def test_an_adapter_is_not_unloaded_while_a_request_uses_it(store: PolicyStore) -> None:
    async def use(engine: VllmEngine) -> list[Completion]:
        return list(await asyncio.gather(*(engine.generate(a_request(i % 6, seed=i)) for i in range(60))))

    with fake_vllm() as server:
        completions = with_engine(server.url, store, use, most_adapters=1)
    for number, completion in enumerate(completions):
        assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), shift(number % 6)), abs=1e-5)
    lost = [body for body in server.bodies if body["model"] != "base"]
    assert len(lost) == 60  # no request had to be sent twice


def test_a_restarted_server_gets_its_adapters_again(store: PolicyStore) -> None:
    async def use(engine: VllmEngine) -> None:
        first = await engine.generate(a_request(2))
        server.restart()
        again = await asyncio.gather(*(engine.generate(a_request(2)) for _ in range(5)))
        assert all((one.tokens == first.tokens).all() for one in again)

    with fake_vllm() as server:
        with_engine(server.url, store, use)
        assert [line.split("-")[0] for line in server.log] == ["load main@2", "load main@2"]


def test_what_another_process_has_loaded_is_used(store: PolicyStore) -> None:
    with fake_vllm() as server:
        first = generate(server.url, store, a_request(1))
        second = generate(server.url, store, a_request(1))
        assert len(server.adapters) == 1
    assert (first.tokens == second.tokens).all()


def test_the_same_version_of_another_run_is_another_adapter(store: PolicyStore, tmp_path: Path) -> None:
    shape = LanguageModelShape(model=LanguageModelConfig(path="m", lora=LoraConfig(rank=1)), critic=False, games=())
    other = PolicyStore(tmp_path / "other")
    other.publish(main(1), {f"{LAYER}.lora_A.weight": np.ones((1, 4), np.float32)}, shape, step=0)
    with fake_vllm() as server:
        generate(server.url, store, a_request(1))
        completion = generate(server.url, other, a_request(1))
    assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), 4.0), abs=1e-5)


@pytest.mark.parametrize(
    ("rank", "loads", "match"),
    [
        (16, True, "vLLM does not load main@9: .*rank 16 is greater"),
        (1, False, "start the server with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"),
    ],
)
def test_an_adapter_that_the_server_does_not_take_is_one_clear_sentence(
    store: PolicyStore, rank: int, loads: bool, match: str
) -> None:
    shape = LanguageModelShape(model=LanguageModelConfig(path="m", lora=LoraConfig(rank=rank)), critic=False, games=())
    store.publish(main(9), {f"{LAYER}.lora_A.weight": np.ones((1, 4), np.float32)}, shape, step=0)
    with fake_vllm(loads_adapters=loads) as server, pytest.raises(PolicyError, match=match):
        generate(server.url, store, a_request(9))
    assert len(server.log) <= 1  # not tried again


def test_a_folder_that_the_server_does_not_see_is_said_so(store: PolicyStore) -> None:
    (store.path(main(1)) / "adapter_config.json").unlink()
    with fake_vllm() as server, pytest.raises(PolicyError, match=r"does not see the folder .*must share it"):
        generate(server.url, store, a_request(1))


def test_a_damaged_version_never_reaches_the_server(store: PolicyStore) -> None:
    file = store.path(main(1)) / "adapter_model.safetensors"
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    with fake_vllm() as server, pytest.raises(PolicyError, match="main@1: CorruptRecord"):
        generate(server.url, store, a_request(1))
    assert server.log == []


def test_whole_models_are_refused(store: PolicyStore, tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "model", layers=1, width=16, heads=2, kv_heads=1)
    shape = LanguageModelShape(model=LanguageModelConfig(path=str(folder), lora=None), critic=False, games=())
    store.publish(main(8), {"w": np.ones(3, np.float32)}, shape, step=0)
    with fake_vllm() as server, pytest.raises(PolicyError, match="main@8 is a whole model"):
        generate(server.url, store, a_request(8))


# -- log-probabilities -------------------------------------------------------------------------------------------------


def test_another_temperature_is_right_on_a_server_that_gives_processed_log_probabilities(store: PolicyStore) -> None:
    sampling = Sampling(max_tokens=12, temperature=0.7)
    with fake_vllm(processed=True) as server:
        completion = generate(server.url, store, a_request(2, sampling=sampling))
    assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), shift(2), heat=0.7), abs=1e-5)


@pytest.mark.parametrize(
    ("processed", "sampling", "match"),
    [
        (False, Sampling(max_tokens=4, temperature=0.7), "temperature 1, not 0.7; .*processed_logprobs"),
        (True, Sampling(max_tokens=4, temperature=0.7, top_k=3), "at temperature 0.7 before top_p, top_k"),
        (True, Sampling(max_tokens=4, temperature=0.7, top_p=0.9), "at temperature 0.7 before top_p, top_k"),
        (True, Sampling(max_tokens=4, temperature=0.7, min_p=0.1), "before top_p, top_k, min_p and"),
        (True, Sampling(max_tokens=4, temperature=0.7, repetition_penalty=1.1), "and repetition_penalty"),
    ],
)
def test_log_probabilities_that_would_be_others_are_refused(
    store: PolicyStore, processed: bool, sampling: Sampling, match: str
) -> None:
    with fake_vllm(processed=processed) as server, pytest.raises(PolicyError, match=match):
        generate(server.url, store, a_request(sampling=sampling))


@pytest.mark.parametrize("processed", [False, True])
@pytest.mark.parametrize("cuts", [{"top_p": 0.6}, {"top_k": 3}])
def test_log_probabilities_are_those_before_top_p_and_top_k(
    store: PolicyStore, processed: bool, cuts: dict[str, Any]
) -> None:
    with fake_vllm(processed=processed) as server:
        completion = generate(server.url, store, a_request(2, sampling=Sampling(max_tokens=12, **cuts)))
    assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), shift(2)), abs=1e-5)
    assert len(server.bodies) == (4 if processed else 3)  # two probes, the completion, and its score if it needs one


@pytest.mark.parametrize("processed", [False, True])
def test_the_likeliest_token_has_its_log_probability_at_temperature_one(store: PolicyStore, processed: bool) -> None:
    with fake_vllm(processed=processed) as server:
        completion = generate(server.url, store, a_request(1, sampling=Sampling(max_tokens=6, temperature=0)))
    assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), shift(1)), abs=1e-5)


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_prompt_that_does_not_fit_is_refused_before_it_is_sent(store: PolicyStore) -> None:
    with fake_vllm() as server:
        with pytest.raises(PolicyError, match="the context holds 20"):
            generate(server.url, store, a_request(prompt=(1,) * 9), context=20)
        with pytest.raises(PolicyError, match=f"the context holds {CONTEXT}"):
            generate(server.url, store, a_request(prompt=(1,) * CONTEXT), context=10_000)
        assert all(len(body["prompt"]) < CONTEXT or body["max_tokens"] == 1 for body in server.bodies)
        with pytest.raises(PolicyError, match="prompt is empty"):
            generate(server.url, store, a_request(prompt=()))


def test_a_model_that_is_not_served_is_named_with_those_that_are(store: PolicyStore) -> None:
    with fake_vllm() as server, pytest.raises(PolicyError, match="does not serve 'qwen'; it serves: base"):
        generate(server.url, store, a_request(), model="qwen")


def test_a_dead_server_is_one_clear_sentence(store: PolicyStore) -> None:
    url = f"http://127.0.0.1:{unused_port()}/v1"
    with pytest.raises(Unreachable, match=rf"{url} cannot be reached .*is it running"):
        generate(url, store, a_request())


def test_a_gateway_with_no_server_behind_it_is_out_of_reach_too(store: PolicyStore) -> None:
    with scripted(refuses(503, "no backend")) as server, pytest.raises(Unreachable, match="status 503: no backend"):
        generate(server.url, store, a_request(), retries=1)


def test_all_who_ask_a_dead_server_learn_of_it_at_once(store: PolicyStore) -> None:
    async def use(engine: VllmEngine) -> None:
        asked = [engine.generate(a_request(seed=seed)) for seed in range(50)]
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(failure) for failure in failures} == {Unreachable}
        assert engine.counters.retries == 4  # of one, for all of them

    with_engine(f"http://127.0.0.1:{unused_port()}/v1", store, use)


def test_a_server_that_comes_back_with_other_settings_is_judged_anew(store: PolicyStore) -> None:
    sampling = Sampling(max_tokens=12, temperature=0.7)
    port = unused_port()

    async def use(engine: VllmEngine) -> Completion:
        with fake_vllm(port=port), pytest.raises(PolicyError, match=r"temperature 1, not 0\.7"):
            await engine.generate(a_request(2, sampling=sampling))
        with pytest.raises(Unreachable):
            await engine.generate(a_request(2))
        with fake_vllm(port=port, processed=True):
            return await engine.generate(a_request(2, sampling=sampling))

    completion = with_engine(f"http://127.0.0.1:{port}/v1", store, use)
    assert completion.logps == pytest.approx(expected_logps(completion, (1, 2, 3), shift(2), heat=0.7), abs=1e-5)


def test_a_slow_server_is_left_at_the_deadline(store: PolicyStore) -> None:
    async def use(engine: VllmEngine) -> None:
        asked = [engine.generate(a_request(deadline_s=0.2)) for _ in range(3)]
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(failure) for failure in failures] == [TimeoutExceeded] * 3

    with scripted(never) as server:
        with_engine(server.url, store, use)


def _meeting(*, then: Answer) -> list[Answer]:
    """What a server says until it is known, and then something else."""
    tops = {f"token_id:{i}": -1.0 - i for i in range(5)}
    probe = {"choices": [{"logprobs": {"top_logprobs": [tops]}}]}
    models = {"data": [{"id": "base", "max_model_len": CONTEXT}]}
    return [lambda body: JSONResponse(models), lambda body: JSONResponse(probe), lambda body: JSONResponse(probe), then]


def choice(**fields: Any) -> Answer:
    logprobs = {"token_logprobs": fields.pop("logps", [-1.0, -2.0])}
    whole = {"token_ids": [4, 5], "logprobs": logprobs, "finish_reason": "stop", **fields}
    return lambda body: JSONResponse({"choices": [whole]})


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (writes("{}"), "no token ids with log-probabilities"),
        (writes('{"choices": [{"token_ids": ["x"], "logprobs": {"token_logprobs": [-1]}}]}'), "no token ids"),
        (choice(token_ids=None), "no token ids|cannot be used"),
        (choice(token_ids=[4, 5, 5]), "2 log-probabilities for 3 tokens"),
        (choice(logps=[-1.0, None]), "not finite|no token ids"),
        (choice(token_ids=[], logps=[]), "0 tokens where 1 to 12"),
        (choice(token_ids=[4, 6]), "stopped at token 6, which is no stop token"),
        (choice(finish_reason="abort"), "finished because of 'abort'"),
        (choice(token_ids=[4] * 13, logps=[-1.0] * 13, finish_reason="length"), "13 tokens where 1 to 12"),
        (refuses(500, "EngineDeadError"), "status 500: EngineDeadError .tried 2 times"),
    ],
)
def test_an_answer_that_cannot_be_used_is_one_clear_sentence(answer: Answer, match: str) -> None:
    with scripted(*_meeting(then=answer)) as server, pytest.raises(PolicyError, match=match):
        generate(server.url, None, a_request(), retries=1)


def test_a_server_that_gives_logits_is_refused() -> None:
    models: Answer = lambda body: JSONResponse({"data": [{"id": "base", "max_model_len": CONTEXT}]})  # noqa: E731
    logits = {"choices": [{"logprobs": {"top_logprobs": [{f"t{i}": 9.0 - i for i in range(5)}]}}]}
    with (
        scripted(models, lambda body: JSONResponse(logits)) as server,
        pytest.raises(PolicyError, match="gives logits for log-probabilities"),
    ):
        generate(server.url, None, a_request())
