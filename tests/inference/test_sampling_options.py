"""Stop strings, min-p, repetition penalty and budgets for thoughts: the engines local, vllm and openai."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_models import ask, main

sys.path.insert(0, str(Path(__file__).parent))

from fake_vllm import WORDS, fake_vllm, log_softmax, next_logits, penalised, spelled

from ludus.config import SamplingConfig
from ludus.config.sections.engines import VllmEngineConfig
from ludus.inference.conversation import Conversation
from ludus.inference.local.engine import LocalEngine
from ludus.inference.openai.wire import ChatReply
from ludus.inference.policy_sampler import PolicySampler, make_sampling
from ludus.inference.protocol import Completion, EngineCounters, Request, Sampling
from ludus.inference.thinking import CLOSING
from ludus.inference.vllm.engine import VllmEngine
from ludus.inference.vllm.load import read_load
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import LanguageModel
from ludus.records import PolicyName, PolicyRef

MakeEngine = Callable[..., LocalEngine]
PROMPT = tuple(range(40, 90))


def written(engine: Any, *requests: Request) -> list[Completion]:
    async def write() -> list[Completion]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(write())


def bent(request: Request, **sampling: Any) -> Request:
    return replace(request, sampling=replace(request.sampling, **sampling))


# -- the local engine --------------------------------------------------------------------------------------------------


def test_min_p_leaves_unlikely_tokens_out_and_log_probabilities_as_they_are(make_engine: MakeEngine) -> None:
    engine = make_engine()
    cut = written(engine, *(bent(ask(PROMPT, max_tokens=4, seed=seed), min_p=0.7) for seed in range(12)))
    prompts = [(*PROMPT, *completion.tokens.tolist()[:n]) for completion in cut for n in range(4)]
    likeliest = written(engine, *(ask(prompt, max_tokens=1, temperature=0.0) for prompt in prompts))
    logps = np.concatenate([completion.logps for completion in cut])
    most = np.concatenate([completion.logps for completion in likeliest])
    assert (logps >= most + np.log(0.7) - 1e-5).all()
    assert (logps < most - 0.05).any()
    assert (logps < -1.0).all()  # not those of the few tokens that are left


def test_a_penalty_makes_repetitions_rarer_and_log_probabilities_stay_the_models(make_engine: MakeEngine) -> None:
    plain, other = written(
        make_engine(),
        *(bent(ask(PROMPT, max_tokens=40, temperature=0.0), repetition_penalty=penalty) for penalty in (1.0, 8.0)),
    )
    assert len(set(other.tokens.tolist()) - set(PROMPT)) == 40  # a large penalty forbids what was there
    assert len(set(plain.tokens.tolist())) < 40
    prompt = (*PROMPT, *other.tokens.tolist()[:-1])
    (again,) = written(make_engine(), bent(ask(prompt, max_tokens=1, temperature=0.0), repetition_penalty=8.0))
    assert again.tokens[0] == other.tokens[-1]
    assert abs(float(again.logps[0]) - float(other.logps[-1])) < 1e-4


def test_requests_without_extras_have_the_same_bits_beside_those_with_them(make_engine: MakeEngine) -> None:
    plain = [ask(PROMPT, max_tokens=9, seed=seed) for seed in range(3)]
    extras = [
        bent(ask(PROMPT, max_tokens=9, seed=seed), min_p=0.1, repetition_penalty=1.2, stop=("~",)) for seed in range(3)
    ]
    alone, together = written(make_engine(), *plain), written(make_engine(), *plain, *extras)
    for one, other in zip(alone, together[:3], strict=True):
        assert one.tokens.tobytes() == other.tokens.tobytes()
        assert one.logps.tobytes() == other.logps.tobytes()
    for one, other in zip(written(make_engine(), *extras), together[3:], strict=True):
        assert one.tokens.tobytes() == other.tokens.tobytes()
        assert one.logps.tobytes() == other.logps.tobytes()


def test_a_stop_string_ends_a_completion_with_the_token_that_completes_it(
    make_engine: MakeEngine, tiny: LanguageModel
) -> None:
    decode = ChatFormat(tiny.tokenizer).decode
    seeds = range(24)
    engine = make_engine()
    wholes = written(engine, *(ask(PROMPT, max_tokens=30, seed=seed) for seed in seeds))
    found = 0
    for seed, whole in zip(seeds, wholes, strict=True):
        text = decode(whole.tokens.tolist())
        stop = next((text[i : i + 2] for i in range(4, len(text) - 2) if text[i : i + 2].isascii()), None)
        if stop is None:
            continue
        found += 1
        (cut,) = written(engine, bent(ask(PROMPT, max_tokens=30, seed=seed), stop=("no such words", stop)))
        count = len(cut.tokens)
        assert cut.finish == "stop"
        assert cut.tokens.tolist() == whole.tokens.tolist()[:count]
        assert stop in decode(cut.tokens.tolist())
        assert stop not in decode(cut.tokens.tolist()[:-1])
    assert found >= 5


# -- vLLM, and endpoints of text ---------------------------------------------------------------------------------------


def at_vllm(url: str, request: Request) -> Completion:
    async def write() -> Completion:
        engine = VllmEngine(VllmEngineConfig(kind="vllm", url=url), store=None, context=512)
        try:
            return await engine.generate(request)
        finally:
            await engine.close()

    return asyncio.run(write())


@pytest.mark.parametrize("processed", [True, False])
@pytest.mark.parametrize("options", [{"min_p": 0.2}, {"repetition_penalty": 1.5}, {"temperature": 0.0}])
def test_vllm_gives_the_models_own_log_probabilities_however_it_draws(processed: bool, options: Any) -> None:
    if options == {"temperature": 0.0}:
        options = {"temperature": 0.0, "repetition_penalty": 3.0}
    request = Request(
        prompt=(1, 2, 3), policy=PolicyRef(name=PolicyName("base")), sampling=Sampling(max_tokens=8, **options), seed=3
    )
    with fake_vllm(processed=processed) as server:
        completion = at_vllm(server.url, request)
        assert {key: server.bodies[2][key] for key in options} == options  # after the two probes
    tokens = [1, 2, 3, *completion.tokens.tolist()]
    own = [float(log_softmax(next_logits(tokens[i - 1], 0.0))[tokens[i]]) for i in range(3, 11)]
    np.testing.assert_allclose(completion.logps, own, atol=1e-6)
    if options.get("temperature") == 0.0:
        worse = [penalised(next_logits(tokens[i - 1], 0.0), tokens[:i], 3.0) for i in range(3, 11)]
        assert completion.tokens.tolist() == [int(logits.argmax()) for logits in worse]


def test_vllm_ends_a_reply_at_a_string(tiny: LanguageModel) -> None:
    request = Request(
        prompt=(1, 2, 3), policy=PolicyRef(name=PolicyName("base")), sampling=Sampling(max_tokens=40), seed=5
    )
    with fake_vllm() as server:
        whole = at_vllm(server.url, request)
        stop = spelled(whole.tokens.tolist())[3:5]
        cut = at_vllm(server.url, bent(request, stop=(stop,)))
        assert server.bodies[-1]["skip_special_tokens"] is True
    first = spelled(whole.tokens.tolist()).find(stop) + 2
    assert cut.finish == "stop"
    assert cut.tokens.tolist() == whole.tokens.tolist()[:first]
    assert 0 <= max(cut.tokens) < WORDS


def test_how_busy_a_server_is_is_read_from_its_metrics() -> None:
    text = 'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 4.0\n'
    assert read_load(text + 'vllm:num_requests_waiting{engine="0"} 2.0\nother 9\n') == (7, 2)
    assert read_load("nothing of the kind") == (0, 0)


def test_a_reply_of_text_is_cut_before_a_stop_string() -> None:
    reply = ChatReply(text="yes</a>no", finish="length")
    assert reply.up_to(("</a>", "no")) == ChatReply(text="yes", finish="stop")
    assert reply.up_to(("never",)) == reply


# -- a budget for thoughts ---------------------------------------------------------------------------------------------


class Thinker:
    """Says one of these texts after the other, as far as it is let."""

    is_repeatable = True

    def __init__(self, chat: ChatFormat, *texts: str) -> None:
        self.counters = EngineCounters()
        self.requests: list[Request] = []
        self._chat = chat
        self._texts = list(texts)

    async def generate(self, request: Request) -> Completion:
        self.requests.append(request)
        tokens = self._chat.tokens_of(self._texts.pop(0))
        text = self._chat.decode(tokens)
        places = [text.find(stop) + len(stop) for stop in request.sampling.stop if stop in text]
        tokens = tokens[: min([*places, request.sampling.max_tokens])]
        is_end = bool(places) or tokens[-1] in request.sampling.stop_tokens
        logps = -np.ones(len(tokens), np.float32)
        return Completion(
            tokens=np.array(tokens, np.int32),
            logps=logps,
            values=logps * 0,
            policy=request.policy,
            finish="stop" if is_end else "length",
        )

    def end_session(self, session: str) -> None:
        pass

    async def close(self) -> None:
        pass


def think(
    chat: ChatFormat, texts: Sequence[str], *, budget: int = 12, max_tokens: int = 60
) -> tuple[Completion, Thinker, PolicySampler]:
    engine = Thinker(chat, *texts)
    config = SamplingConfig(max_tokens=max_tokens, thinking_budget=budget)
    sampler = PolicySampler(engine, chat).speaking(chat, config)
    request = Request(
        prompt=tuple(chat.opening([{"role": "user", "content": "q"}])),
        policy=main(0),
        sampling=make_sampling(config, chat.stop_tokens),
        seed=1,
        session="episode/0",
    )
    return asyncio.run(sampler.sample(request)), engine, sampler


@pytest.fixture(scope="module")
def chat(tiny: LanguageModel) -> ChatFormat:
    return ChatFormat(tiny.tokenizer)


def test_thoughts_over_their_budget_are_closed_and_what_closes_them_is_masked(chat: ChatFormat) -> None:
    completion, engine, sampler = think(chat, ["<think>on and on and on", "42<|im_end|>"])
    assert chat.decode(completion.tokens.tolist()) == f"<think>on an{CLOSING}42"
    assert completion.sampled is not None
    told = completion.tokens[~completion.sampled].tolist()
    assert chat.decode(told) == CLOSING
    assert not completion.logps[~completion.sampled].any()
    assert (completion.logps[completion.sampled] == -1).all()
    assert engine.requests[1].prompt == (*engine.requests[0].prompt, *completion.tokens.tolist()[:-3])
    assert engine.requests[1].sampling.max_tokens == 60 - 12 - len(CLOSING)
    said = sampler.end_episode("episode")
    assert (said.replies, said.tokens, said.cut, said.closed) == (1, 15, 0, 1)
    conversation = Conversation(chat)
    conversation.hear("q")
    conversation.say(completion)
    columns = conversation.as_episode()
    assert columns["mask"].sum() == 15
    assert not columns["logp"][~columns["mask"]].any()


def test_thoughts_within_their_budget_are_left_alone(chat: ChatFormat) -> None:
    completion, _, sampler = think(chat, ["<think>a</think>", "42<|im_end|>"], budget=30)
    assert chat.decode(completion.tokens.tolist()) == "<think>a</think>42"
    assert completion.sampled is not None
    assert completion.sampled.all()
    assert completion.finish == "stop"
    assert sampler.end_episode("episode").closed == 0


def test_a_reply_without_thoughts_is_not_told_to_end_them(chat: ChatFormat) -> None:
    completion, _, _ = think(chat, ["the answer to the question", " is 42<|im_end|>"])
    assert chat.decode(completion.tokens.tolist()) == "the answer t is 42"
    done, engine, _ = think(chat, ["42<|im_end|>"])
    assert chat.decode(done.tokens.tolist()) == "42"
    assert len(engine.requests) == 1


def test_a_budget_changes_nothing_of_a_reply_that_keeps_it(
    make_engine: MakeEngine, tiny: LanguageModel, chat: ChatFormat
) -> None:
    """Two requests of one session give the tokens of one, from an engine that is repeatable."""
    request = replace(ask(PROMPT, max_tokens=24), session="episode/0")
    (whole,) = written(make_engine(), request)
    sampler = PolicySampler(make_engine(), chat).speaking(chat, SamplingConfig(max_tokens=24, thinking_budget=10))
    parts = asyncio.run(sampler.sample(request))
    assert parts.tokens.tolist() == whole.tokens.tolist()
    np.testing.assert_array_equal(parts.logps, whole.logps)
