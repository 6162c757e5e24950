"""Endpoints on loopback that answer as a test tells them to."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ludus.http.server import serving

Answer = Callable[[dict[str, Any]], Awaitable[Response] | Response]


class ScriptedServer:
    """Gives its answers in order, the last one for ever, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.url = ""

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        fields = json.loads(body) if body else {}
        self.seen.append((request.url.path, dict(request.headers), fields))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        result = answer(fields)
        return await _while_wanted(request, result) if isinstance(result, Awaitable) else result

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.seen]


def says(text: str, *, finish: str = "stop", **fields: Any) -> Answer:
    """A chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish, **fields}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return lambda body: JSONResponse({"object": "chat.completion", "choices": [choice], "usage": usage})


def refuses(status: int, message: str = "no", *, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
    """An error as OpenAI writes it."""
    error = {"error": {"message": message, **fields}}
    return lambda body: JSONResponse(error, status_code=status, headers=headers)


def writes(content: str, status: int = 200) -> Answer:
    """Any text."""
    return lambda body: Response(content, status_code=status)


async def never(body: dict[str, Any]) -> Response:
    """No answer before the test is over."""
    await asyncio.sleep(3600)
    raise AssertionError


async def _while_wanted(request: Request, answer: Awaitable[Response]) -> Response:
    """An answer, unless whoever asked has gone before it is there."""
    work, gone = asyncio.ensure_future(answer), asyncio.ensure_future(request.receive())
    await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if work.done():
        return work.result()
    work.cancel()
    return Response(status_code=499)


@contextmanager
def scripted(*answers: Answer) -> Iterator[ScriptedServer]:
    script = ScriptedServer()
    script.answers = list(answers)
    paths = [Route("/{path:path}", script.answer, methods=["GET", "POST"])]
    with serving(Starlette(routes=paths)) as url:
        script.url = url
        yield script


def unused_port() -> int:
    """A port of this machine where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def hanging_up() -> Iterator[str]:
    """An endpoint that takes every call and hangs up without a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_hang_up, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _hang_up(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            listener.accept()[0].close()
