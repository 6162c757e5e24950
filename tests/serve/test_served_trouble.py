"""What can go wrong while serving: bad requests, an engine that fails, clients that leave, too many at once, strangers."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).parent))

from scripted_engine import ScriptedEngine

from ludus.config import SamplingConfig
from ludus.errors import ConfigError, PolicyError, TimeoutExceeded
from ludus.http import deadlines
from ludus.http.routes import TOKEN_VARIABLE, read_token
from ludus.http.server import bind, serving, url_of
from ludus.http.token_text import TokenText
from ludus.lm.chat import ChatFormat
from ludus.serve.app import Service, make_app
from ludus.serve.members import Members
from ludus.serve.writer import Writer

TOKEN = "0123456789abcdef-token"  # noqa: S105
HELLO: list[Any] = [{"role": "user", "content": "Your move?"}]
Serve = Callable[..., Any]


@pytest.fixture
def serve(talking_run: Any) -> Serve:
    """Serve an engine of the test's own under the run's names."""

    @contextmanager
    def start(engine: ScriptedEngine, *, token: str = "", host: str = "127.0.0.1", **options: Any) -> Iterator[str]:
        tokenizer = talking_run.model.tokenizer
        deadline_s = options.pop("deadline_s", 60.0)
        service = Service(
            engine=engine,
            members=Members(talking_run.store, "main"),
            writer=Writer(
                engine,
                ChatFormat(tokenizer),
                context=256,
                sampling=SamplingConfig(max_tokens=100),
                deadline_s=deadline_s,
            ),
            token_text=TokenText(tokenizer),
            **options,
        )
        with serving(make_app(service, token=token), token=token, host=host) as url:
            yield url
        assert engine.was_closed.is_set()

    return start


def client(url: str, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(**{"base_url": url, "api_key": "none", "max_retries": 0, "timeout": 30, **options})


def ask(url: str, **fields: Any) -> Any:
    with client(url) as caller:
        return caller.chat.completions.create(**{"model": "main", "messages": HELLO, **fields})


def send(url: str, body: bytes, *, path: str = "/v1/chat/completions", **headers: str) -> tuple[int, dict[str, Any]]:
    """A request that no client would send."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=30)
    try:
        method = "POST" if body else "GET"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, {"Content-Type": "application/json", **named})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"temperature": -1}, "temperature"),
        ({"n": 0}, "n: "),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "only parts of type 'text'"),
        ({"stop": [""]}, "stop.0"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools is not supported"),
        ({"response_format": {"type": "json_object"}}, "response_format is not supported"),
        ({"logit_bias": {"1": 5}}, "logit_bias is not supported"),
        ({"logprobs": True, "top_logprobs": 3}, "top_logprobs is not supported"),
        ({"frequency_penalty": 0.5}, "frequency_penalty is not supported"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(serve: Serve, fields: dict[str, Any], match: str) -> None:
    engine = ScriptedEngine("hello")
    with serve(engine) as url, pytest.raises(openai.BadRequestError, match=match):
        ask(url, **fields)
    assert not engine.requests


def test_fields_that_ask_for_nothing_are_passed_over(serve: Serve) -> None:
    with serve(ScriptedEngine("hello")) as url:
        done = ask(url, tools=[], frequency_penalty=0, user="me", response_format={"type": "text"}, temperature=None)
    assert done.choices[0].message.content == "hello"


def test_text_parts_are_one_message(serve: Serve) -> None:
    engine = ScriptedEngine("hello")
    parts = [{"type": "text", "text": "Your "}, {"type": "text", "text": "move?"}]
    with serve(engine) as url:
        ask(url, messages=[{"role": "user", "content": parts}])
        ask(url)
    assert engine.requests[0].prompt == engine.requests[1].prompt


def test_what_is_no_request_gets_an_error_object(serve: Serve) -> None:
    with serve(ScriptedEngine("hello")) as url:
        for body in (b"{", b"[]", b'{"model": "main"}', b"[" * 100_000):
            status, answer = send(url, body)
            assert status == 400
            assert answer["error"]["type"] == "invalid_request_error"
        assert send(url, b"{}", Content_Type="text/plain")[0] == 415
        assert send(url, b"x" * (5 * 1024 * 1024))[0] == 413
        assert send(url, b"", path="/v1/nothing")[0] == 404
        status, answer = send(url, b"{}", path="/v1/models")
        assert (status, answer["error"]["message"]) == (405, "POST /v1/models: 405: Method Not Allowed")
        assert ask(url).choices[0].message.content == "hello"  # and it still works


@pytest.mark.parametrize("surrogate", [rb"\ud800", rb"\udc00\ud800", "\ud800".encode(errors="surrogatepass")])
@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "main", "messages": [{"role": "user", "content": "%s"}]}',
        b'{"model": "%s", "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "main", "messages": [{"role": "user", "content": "x"}], "stop": ["%s"]}',
        b'{"model": "main", "messages": [{"role": "%s", "content": "x"}]}',
    ],
)
def test_half_a_surrogate_pair_is_a_bad_request(serve: Serve, body: bytes, surrogate: bytes) -> None:
    with serve(ScriptedEngine("hello")) as url:
        status, answer = send(url, body % surrogate)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert "surrogate" in answer["error"]["message"]


# -- the engine --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (PolicyError("main@2 is damaged"), openai.InternalServerError),
        (TimeoutExceeded("too slow"), openai.InternalServerError),
    ],
)
def test_an_engine_that_fails_is_an_error_with_its_sentence(
    serve: Serve, failure: Exception, kind: type[Exception]
) -> None:
    with serve(ScriptedEngine("hello", failure=failure)) as url, pytest.raises(kind, match=str(failure)):
        ask(url)


def test_an_engine_that_fails_in_the_middle_of_a_stream_is_an_error_there(serve: Serve) -> None:
    engine = ScriptedEngine("hello there, how are you", fails_after=8, failure=PolicyError("the engine broke"))
    heard = ""
    with serve(engine) as url, client(url) as caller:
        stream = caller.chat.completions.create(model="main", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="the engine broke"):  # noqa: PT012
            for chunk in stream:
                heard += chunk.choices[0].delta.content or ""
        assert json.loads(caller.with_raw_response.models.list().text)["object"] == "list"
    assert heard == "hello th"
    assert engine.ended == [engine.requests[0].session]


def test_a_bug_is_an_error_and_not_the_end_of_the_server(serve: Serve) -> None:
    with serve(ScriptedEngine("hello", failure=ZeroDivisionError("bug"))) as url:
        with pytest.raises(openai.InternalServerError):
            ask(url)
        assert send(url, b"", path="/health")[1]["in_flight"] == 0


def test_a_reply_that_takes_too_long_is_given_up(serve: Serve) -> None:
    engine = ScriptedEngine("x" * 90)
    with (
        serve(engine, deadline_s=0.0) as url,
        pytest.raises(openai.InternalServerError, match="not finished within 0 s"),
    ):
        ask(url)


def test_a_reply_is_asked_for_in_one_session_that_goes_on_from_what_was_said(serve: Serve) -> None:
    engine = ScriptedEngine("a reply of more than sixteen tokens")
    with serve(engine) as url:
        ask(url)
    first, *later = engine.requests
    assert {request.session for request in engine.requests} == {first.session} == set(engine.ended)
    for request in later:
        assert request.prompt[: len(first.prompt)] == first.prompt
        assert (
            bytes(request.prompt[len(first.prompt) :])
            == engine.text.encode()[: len(request.prompt) - len(first.prompt)]
        )
    assert len({request.seed for request in engine.requests}) == len(engine.requests)


# -- clients -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_reply_that_nobody_waits_for_is_given_up(serve: Serve, is_stream: bool) -> None:
    engine = ScriptedEngine("hello there, how are you", waits_after=8)
    with serve(engine) as url:
        parts = urlsplit(url)
        caller = socket.create_connection((parts.hostname, parts.port), timeout=30)
        body = json.dumps({"model": "main", "messages": HELLO, "stream": is_stream}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        caller.sendall(head.encode() + body)
        assert engine.is_waiting.wait(30)
        caller.close()
        assert engine.was_given_up.wait(30)
    assert engine.ended


def test_no_more_than_so_many_are_worked_on_at_a_time(serve: Serve) -> None:
    engine = ScriptedEngine("hello there, how are you", waits_after=8)
    with serve(engine, max_in_flight=1) as url, client(url) as caller:
        stream = caller.chat.completions.create(model="main", messages=HELLO, stream=True)
        assert engine.is_waiting.wait(30)
        with pytest.raises(openai.RateLimitError, match="try again") as caught:
            ask(url)
        assert caught.value.response.headers["retry-after"] == "1"
        stream.close()
        assert engine.was_given_up.wait(30)
        engine.waits_after = None
        with client(url, max_retries=5) as patient:  # the place is free as soon as the server has noticed
            done = patient.chat.completions.create(model="main", messages=HELLO)
    assert done.choices[0].message.content == engine.text


def test_stopping_the_server_ends_what_is_in_flight(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.http.server.SHUTDOWN_S", 1)
    engine = ScriptedEngine("hello there, how are you", waits_after=8)
    with serve(engine) as url:
        caller = client(url)
        stream = caller.chat.completions.create(model="main", messages=HELLO, stream=True)
        assert engine.is_waiting.wait(30)
    assert engine.was_given_up.wait(30)
    stream.close()
    caller.close()


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WHOLE = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"", b""),
        (b"POST /v1/chat", b""),
        (HEAD + b"X-Slow: ", b""),
        (HEAD + b"Content-Length: 100\r\n\r\n{", b"408"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", b"408"),
        (WHOLE + b"POST /v1", b"200"),
        (WHOLE.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n"), b"405"),
    ],
)
def test_half_a_request_is_not_waited_for_for_good(
    serve: Serve, sent: bytes, told: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "BODY_S", 0.2)
    with serve(ScriptedEngine("hello")) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=30) as caller:
            caller.sendall(sent)
            said = b""
            while told not in said:
                said += caller.recv(65536)
            monkeypatch.setattr(deadlines, "HEAD_S", 0.2)
            monkeypatch.setattr(deadlines, "AFTERWARDS_S", 0.0)
            read_to_the_end(caller)
        monkeypatch.undo()
        assert ask(url).choices[0].message.content == "hello"


def test_bytes_that_trickle_in_do_not_move_the_deadline(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "HEAD_S", 0.5)
    with serve(ScriptedEngine("hello")) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=0.05) as caller:
            caller.sendall(HEAD)
            with pytest.raises(ConnectionError):  # noqa: PT012
                for _ in range(600):
                    caller.sendall(b"X: y\r\n")
                    with suppress(TimeoutError):
                        caller.recv(1) or caller.sendall(b"x")


def test_a_reply_that_nobody_takes_is_not_kept_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "TAKE_S", 0.5)
    gone = threading.Event()

    class Noting(deadlines.DeadlineProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            gone.set()

    monkeypatch.setattr("ludus.http.server.DeadlineProtocol", Noting)
    large = Starlette(routes=[Route("/large", lambda request: Response(b"x" * (64 << 20)))])
    with serving(large) as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), timeout=30) as caller:
            caller.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert gone.wait(30)


def read_to_the_end(caller: socket.socket) -> None:
    """Wait until a server closes the connection; a reset is an end, too."""
    with suppress(ConnectionResetError):
        while caller.recv(65536):
            pass


# -- strangers ---------------------------------------------------------------------------------------------------------


def test_with_a_token_every_request_must_carry_it(serve: Serve) -> None:
    with serve(ScriptedEngine("hello"), token=TOKEN) as url:
        for wrong in ("none", TOKEN[:-1], TOKEN + "x"):
            with client(url, api_key=wrong) as caller, pytest.raises(openai.AuthenticationError, match="token"):
                caller.models.list()
        with client(url, api_key=TOKEN) as caller:
            assert caller.chat.completions.create(model="main", messages=HELLO).choices[0].message.content == "hello"
        assert send(url, b"", path="/v1/models", Authorization=TOKEN)[0] == 401
        assert send(url, b"", path="/health")[1]["status"] == "ok"
        assert send(url, b"", path="/v1/models", Authorization=f"bearer {TOKEN}", Host="my.server")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[", ""])
def test_without_a_token_only_names_of_this_machine_are_answered_to(serve: Serve, host: str) -> None:
    with serve(ScriptedEngine("hello")) as url:
        assert send(url, b"", path="/v1/models", Host=host)[0] in (400, 403)
        assert send(url, b"", path="/v1/models", Host="localhost")[0] == 200
        assert send(url, b"", path="/v1/models", Host="[::1]:8000")[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])  # noqa: S104
def test_an_address_that_others_can_reach_needs_a_token(host: str) -> None:
    with pytest.raises(
        ConfigError, match=f"others could reach the server there, so it needs a token; set {TOKEN_VARIABLE}"
    ):
        bind(host, 0, token="")


def test_with_a_token_any_address_will_do() -> None:
    with bind("0.0.0.0", 0, token=TOKEN) as listener:  # noqa: S104
        assert url_of(listener).startswith("http://0.0.0.0:")


@pytest.mark.parametrize("token", ["short", "with spaces in the middle", "ünprintable-0123456789"])
def test_a_token_that_keeps_nobody_out_is_bad_input(token: str) -> None:
    with pytest.raises(ConfigError, match=r"expected at least 16 printable"):
        read_token({TOKEN_VARIABLE: token})


def test_a_port_that_is_taken_is_one_clear_sentence() -> None:
    with bind("127.0.0.1", 0, token="") as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"--port {port}: .*in use.*choose another"):
            bind("127.0.0.1", port, token="")
