"""An OpenAI-compatible endpoint as a player: what is sent, what is understood, and everything that can go wrong."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from starlette.responses import JSONResponse

sys.path.insert(0, str(Path(__file__).parent))

from fake_openai import CONTEXT, fake_openai
from scripted_endpoint import (
    Answer,
    ScriptedServer,
    hanging_up,
    never,
    refuses,
    says,
    scripted,
    unused_port,
    writes,
)

from ludus.config import EndpointConfig
from ludus.errors import ConfigError, PolicyError, RewardError, TimeoutExceeded
from ludus.inference.endpoint import EndpointRefused
from ludus.inference.judge import Judge
from ludus.inference.openai.engine import OpenAIEngine
from ludus.inference.openai.wire import END, MessageFormat
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.records import PolicyName, PolicyRef
from ludus.testing.engine_conformance import check_engine

T = TypeVar("T")
SECRET = "sk-very-secret-0123456789"  # noqa: S105
GUEST = PolicyRef(name=PolicyName("guest"))
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Wähle: A oder B?"}]


def a_request(messages: list[dict[str, str]] = HELLO, **fields: Any) -> Request:
    prompt = tuple(MessageFormat().opening(messages))
    sampling = fields.pop("sampling", Sampling(max_tokens=32, stop_tokens=frozenset({END})))
    return Request(**{"prompt": prompt, "policy": GUEST, "sampling": sampling, "seed": 7, **fields})


def with_engine(url: str, use: Callable[[OpenAIEngine], Awaitable[T]], **settings: Any) -> tuple[T, OpenAIEngine]:
    """Use an engine in an event loop of its own, and close it."""

    async def work() -> tuple[T, OpenAIEngine]:
        policy, options = (
            settings.pop("policy", None),
            {"model": "guest-1", "url": url, "key_variable": None, **settings},
        )
        engine = OpenAIEngine(EndpointConfig(**options), policy=policy, backoff_s=0.001)
        try:
            return await use(engine), engine
        finally:
            await engine.close()

    return asyncio.run(work())


def generate(url: str, request: Request | None = None, **settings: Any) -> tuple[Completion, OpenAIEngine]:
    return with_engine(url, lambda engine: engine.generate(request or a_request()), **settings)


def failing(url: str, kind: type[Exception], match: str, request: Request | None = None, **settings: Any) -> None:
    with pytest.raises(kind, match=match):
        generate(url, request, **settings)


class Letters:
    """A tokenizer for `MessageFormat`."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(text.encode())


def test_it_keeps_the_engines_contract() -> None:
    async def check(engine: OpenAIEngine) -> None:
        await check_engine(engine, Letters(), policies=[GUEST], context=CONTEXT)

    with fake_openai() as url:
        with_engine(url, check, policy="guest")


# -- what is said ------------------------------------------------------------------------------------------------------


def test_a_conversation_goes_out_as_messages_and_comes_back_as_bytes_with_an_end() -> None:
    with scripted(says("Ich wähle B.")) as server:
        completion, engine = generate(server.url)
    path, _, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == HELLO
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("guest-1", 32, 1.0, 7)
    assert "top_k" not in body
    assert engine.format.decode(completion.tokens.tolist()) == "Ich wähle B."
    assert completion.tokens[-1] == END
    assert completion.finish == "stop"
    assert completion.policy == GUEST
    assert completion.tokens.dtype == np.int32
    assert completion.logps.dtype == completion.values.dtype == np.float32
    assert len(completion.logps) == len(completion.values) == len(completion.tokens)


def test_turns_of_a_game_add_up_to_the_conversation() -> None:
    chat = MessageFormat()
    with scripted(says("A"), says("cut off", finish="length"), says("C")) as server:

        async def play(engine: OpenAIEngine) -> None:
            prompt = tuple(chat.opening([{"role": "user", "content": "one"}]))
            for news in ("two", "three"):
                done = await engine.generate(a_request(prompt=prompt))
                prompt += tuple(done.tokens.tolist()) + tuple(chat.reply(news, ended=done.finish == "stop"))
            await engine.generate(a_request(prompt=prompt))

        with_engine(server.url, play)
    assert [(message["role"], message["content"]) for message in server.bodies[-1]["messages"]] == [
        ("user", "one"),
        ("assistant", "A"),
        ("user", "two"),
        ("assistant", "cut off"),
        ("user", "three"),
    ]


def test_a_reply_cut_at_its_length_has_no_end() -> None:
    with scripted(says("and then", finish="length")) as server:
        completion, _ = generate(server.url)
    assert completion.finish == "length"
    assert bytes(completion.tokens.tolist()) == b"and then"


def test_a_reply_ends_at_a_stop_token_of_the_request() -> None:
    with scripted(says("first line\nsecond line")) as server:
        sampling = Sampling(max_tokens=64, stop_tokens=frozenset({END, ord("\n")}))
        completion, _ = generate(server.url, a_request(sampling=sampling))
    assert bytes(completion.tokens.tolist()) == b"first line\n"
    assert completion.finish == "stop"


def test_an_empty_reply_is_the_end_alone() -> None:
    with scripted(says("")) as server:
        completion, _ = generate(server.url)
    assert completion.tokens.tolist() == [END]


def test_tokens_that_are_no_conversation_are_refused_without_a_call() -> None:
    with scripted(says("x")) as server:
        failing(server.url, PolicyError, "token 4711", a_request(prompt=(72, 4711)))
    assert not server.seen


# -- money and counters ------------------------------------------------------------------------------------------------


def test_tokens_and_cost_are_counted() -> None:
    with scripted(says("a")) as server:

        async def ask_three_times(engine: OpenAIEngine) -> None:
            await asyncio.gather(*(engine.generate(a_request()) for _ in range(3)))

        _, engine = with_engine(server.url, ask_three_times, prompt_price=2.0, completion_price=10.0)
    counters = engine.counters
    assert (counters.requests, counters.completed, counters.failed) == (3, 3, 0)
    assert (counters.prompt_tokens, counters.sampled_tokens) == (33, 21)
    assert counters.cost == pytest.approx((33 * 2 + 21 * 10) / 1e6)


def test_an_endpoint_that_does_not_count_is_charged_by_length() -> None:
    answer: Answer = lambda body: JSONResponse({"choices": [{"message": {"content": "x" * 30}}]})  # noqa: E731
    with scripted(answer) as server:
        _, engine = generate(server.url, completion_price=1.0)
    assert engine.counters.sampled_tokens == 10
    assert engine.counters.cost == pytest.approx(10 / 1e6)


def test_an_answer_without_a_usable_reply_costs_as_much() -> None:
    with scripted(says("", finish="content_filter")) as server:

        async def ask(engine: OpenAIEngine) -> None:
            with pytest.raises(PolicyError):
                await engine.generate(a_request())

        _, engine = with_engine(server.url, ask, completion_price=10.0)
    assert engine.counters.cost == pytest.approx(7 * 10 / 1e6)
    assert (engine.counters.completed, engine.counters.failed) == (0, 1)


def test_nothing_is_asked_once_the_money_is_spent() -> None:
    with scripted(says("a")) as server:

        async def ask_until_refused(engine: OpenAIEngine) -> None:
            for _ in range(3):
                await engine.generate(a_request())
            with pytest.raises(PolicyError, match="max_cost is 5e-05"):
                await engine.generate(a_request())

        with_engine(server.url, ask_until_refused, completion_price=3.0, max_cost=5e-5)
    assert len(server.seen) == 3


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_dead_endpoint_is_one_clear_sentence() -> None:
    port = unused_port()
    failing(f"http://127.0.0.1:{port}/v1", PolicyError, rf"127.0.0.1:{port}/v1 cannot be reached .*is it running\?")


def test_an_endpoint_that_hangs_up_is_tried_again_and_then_given_up() -> None:
    with hanging_up() as url:
        failing(url, PolicyError, r"cannot be reached .*tried 3 times", retries=2)


def test_passing_trouble_passes() -> None:
    answers = [refuses(500), refuses(503), writes("<html>502 Bad Gateway</html>", 502), writes("<html>"), says("there")]
    with scripted(*answers) as server:
        completion, engine = generate(server.url)
    assert bytes(completion.tokens.tolist()[:-1]) == b"there"
    assert engine.counters.retries == 4
    assert (engine.counters.completed, engine.counters.failed) == (1, 0)


def test_an_endpoint_that_always_fails_is_given_up() -> None:
    with scripted(refuses(500, "out of memory")) as server:
        failing(server.url, EndpointRefused, "status 500: out of memory .tried 3 times", retries=2)
    assert len(server.seen) == 3


def test_a_rate_limit_is_waited_out_as_long_as_the_endpoint_asks() -> None:
    with scripted(refuses(429, "slow down", headers={"Retry-After": "0.2"}), says("ok")) as server:
        started = time.monotonic()
        generate(server.url)
        assert time.monotonic() - started >= 0.2


def test_a_rate_limit_does_not_outlast_the_deadline() -> None:
    with scripted(refuses(429, "slow down", headers={"Retry-After": "30"})) as server:
        started = time.monotonic()
        failing(server.url, TimeoutExceeded, "within 2 s; before that: .*slow down", a_request(deadline_s=2))
    assert time.monotonic() - started < 20


def test_a_slow_endpoint_is_left_at_the_deadline() -> None:
    with scripted(never) as server:
        failing(server.url, TimeoutExceeded, r"no answer within 0\.(1|09\d*) s", a_request(deadline_s=0.1))


def test_a_slow_attempt_is_given_up_for_another() -> None:
    with scripted(never, says("second")) as server:
        completion, engine = generate(server.url, attempt_s=0.5)
    assert engine.counters.retries >= 1
    assert completion.finish == "stop"


def test_what_is_refused_for_good_is_not_tried_again() -> None:
    with scripted(refuses(404, "no such model")) as server:
        failing(server.url, EndpointRefused, "status 404: no such model")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (writes("[1, 2]"), "expected a JSON object"),
        (writes("{}"), "no choice with a message"),
        (writes('{"choices": []}'), "no choice with a message"),
        (writes('{"choices": [{"message": null}]}'), "no choice with a message"),
        (writes('{"choices": [{"message": {"content": null}}]}'), "empty"),
        (says("", finish="length"), "reasoning"),
        (says("", finish="content_filter"), "content_filter"),
        (says("", finish="tool_calls"), "tool_calls"),
        (writes('{"choices": [{"message": {"content": "", "refusal": "I will not"}}]}'), "I will not"),
        (writes("not json at all"), "the answer is not JSON: 'not json at all'"),
    ],
)
def test_an_answer_without_a_usable_reply_is_one_clear_sentence(answer: Answer, match: str) -> None:
    with scripted(answer) as server:
        failing(server.url, PolicyError, match, retries=1)


def test_a_parameter_that_the_endpoint_does_not_know_is_left_out_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    def like_a_reasoning_model(body: dict[str, Any]) -> JSONResponse:
        if "max_tokens" in body:
            message = "Unsupported parameter: 'max_tokens' is not supported with this model."
            return JSONResponse({"error": {"message": message, "param": "max_tokens"}}, status_code=400)
        if "temperature" in body:
            message = "Unsupported value: 'temperature' does not support 0.5 with this model."
            return JSONResponse({"error": {"message": message, "param": "temperature"}}, status_code=400)
        assert body["max_completion_tokens"] == 32
        return says("ok")(body)  # type: ignore[return-value]

    with scripted(like_a_reasoning_model) as server:

        async def ask_twice(engine: OpenAIEngine) -> None:
            for _ in range(2):
                await engine.generate(a_request(sampling=Sampling(max_tokens=32, temperature=0.5)))

        with_engine(server.url, ask_twice)
    assert len(server.seen) == 4
    assert [record.args[1] for record in caplog.records if record.name == "ludus.inference.openai.engine"] == [
        "max_tokens",
        "temperature",
    ]  # type: ignore[index]


def test_a_parameter_with_a_bad_value_stays_an_error() -> None:
    with scripted(refuses(400, "Invalid 'temperature': must be at most 2", param="temperature")) as server:
        failing(server.url, EndpointRefused, "must be at most 2")
    assert len(server.seen) == 1


def test_requests_in_flight_are_bounded() -> None:
    most = 0
    now = 0

    is_full = asyncio.Event()

    async def count(body: dict[str, Any]) -> Any:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if now == 3:
            is_full.set()
        await asyncio.wait_for(is_full.wait(), 30)
        now -= 1
        return says("x")(body)

    with scripted(count) as server:

        async def many(engine: OpenAIEngine) -> None:
            await asyncio.gather(*(engine.generate(a_request()) for _ in range(12)))

        with_engine(server.url, many, max_in_flight=3)
    assert most == 3


def test_closing_fails_what_is_in_flight_and_what_comes_after() -> None:
    arrived = asyncio.Event()

    async def work(url: str) -> None:
        engine = OpenAIEngine(EndpointConfig(model="m", url=url, key_variable=None))
        asked = asyncio.ensure_future(engine.generate(a_request()))
        await asyncio.wait_for(arrived.wait(), 10)
        await engine.close()
        with pytest.raises(PolicyError, match="closed before the answer came"):
            await asked
        with pytest.raises(PolicyError, match="closed"):
            await engine.generate(a_request())
        assert engine.counters.failed == 2

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def arrive(body: dict[str, Any]) -> Any:
            loop.call_soon_threadsafe(arrived.set)
            return await never(body)

        with scripted(arrive) as server:
            await work(server.url)

    asyncio.run(main())


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GUEST_KEY", SECRET)
    return "GUEST_KEY"


def test_the_key_comes_from_the_environment_and_goes_into_one_header(key: str) -> None:
    with scripted(says("x")) as server:
        generate(server.url, key_variable=key)
    _, headers, body = server.seen[0]
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in str(body)


def test_the_key_is_in_no_message_and_no_log(key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with scripted(refuses(401, f"Incorrect API key provided: {SECRET}.")) as server:
        with pytest.raises(EndpointRefused) as caught:
            generate(server.url, key_variable=key)
        settings = EndpointConfig(model="m", url=server.url, key_variable=key)
        engine = OpenAIEngine(settings)
    assert "Incorrect API key provided: [key]." in str(caught.value)
    assert SECRET not in caplog.text
    assert SECRET not in repr(settings) + repr(engine) + repr(engine._endpoint)


def test_a_key_that_is_not_set_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ConfigError, match="NO_SUCH_KEY, which is to have its key, is not set"):
        OpenAIEngine(EndpointConfig(model="m", key_variable="NO_SUCH_KEY"))


def test_the_key_does_not_follow_a_redirect(key: str) -> None:
    def redirect(body: dict[str, Any]) -> Any:
        return JSONResponse({}, status_code=307, headers={"Location": "http://127.0.0.1:1/"})

    with scripted(redirect) as server:
        failing(server.url, EndpointRefused, "status 307", key_variable=key)
    assert len(server.seen) == 1


@pytest.mark.parametrize("url", ["ftp://x/v1", "127.0.0.1:8000", "http://me:secret@x/v1", "https://x/v1?key=secret"])
def test_a_url_that_we_may_not_call_is_bad_input_and_its_secret_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIEngine(EndpointConfig.model_construct(model="m", url=url))
    assert "secret" not in str(caught.value)


def test_a_key_sent_in_the_clear_to_another_machine_is_warned_of(key: str, caplog: pytest.LogCaptureFixture) -> None:
    OpenAIEngine(EndpointConfig(model="m", url="http://10.1.2.3/v1", key_variable=key))
    assert "unencrypted" in caplog.text
    assert SECRET not in caplog.text


# -- judging -----------------------------------------------------------------------------------------------------------


def judge(server: ScriptedServer, **options: Any) -> Any:
    async def use(engine: OpenAIEngine) -> Any:
        return await Judge(engine, rubric="Is it polite?", lowest=0, highest=10, **options).score("Go away!", seed=1)

    return with_engine(server.url, use)[0]


def test_a_judge_gives_a_score_with_its_reasons() -> None:
    with scripted(says("score: 9 would be too kind.\nIt is rude.\n**Score:** 2.5")) as server:
        verdict = judge(server)
    assert verdict.score == 2.5
    assert "rude" in verdict.reason
    system, user = server.bodies[0]["messages"]
    assert "Is it polite?" in system["content"]
    assert user == {"role": "user", "content": "Go away!"}
    assert server.bodies[0]["temperature"] == 0


def test_a_judge_that_rambles_is_asked_again() -> None:
    with scripted(says("Well..."), says("score: 11"), says("score: 10")) as server:
        assert judge(server).score == 10
    assert len({body["seed"] for body in server.bodies}) == 3


def test_a_judge_without_a_score_is_an_error_that_says_how_it_ended() -> None:
    with scripted(says("No comment.")) as server, pytest.raises(RewardError, match=r"0 to 10 in 2 .*'No comment.'"):
        judge(server, attempts=2)
