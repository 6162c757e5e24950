"""What every route of the API has in common: access, bodies read within bounds, work given up when nobody waits for
it, errors that OpenAI's clients understand.

Invariants of access: a server that others can reach has a token, and every request but `/health` must carry it; one
without a token answers only to the names of this machine, so that a web page in a local browser cannot reach it under
another.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ludus.errors import ConfigError, LudusError
from ludus.http import deadlines
from ludus.http.chat_request import BadRequest, as_bad_request
from ludus.inference.addresses import is_loopback, without_port

TOKEN_VARIABLE = "LUDUS_SERVE_TOKEN"  # noqa: S105  the name of a variable, not what is in it
SHORTEST_TOKEN = 16
OPEN_PATHS = ("/health",)
MOST_BODY_BYTES = 4 * 1024 * 1024
Handler = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


class EventStream(StreamingResponse):
    """A stream of events that is closed, and told so, however it ends."""

    def __init__(self, events: AsyncGenerator[bytes], *, on_end: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._events = events
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, or as many as somebody listens to."""
        try:
            # Cancelled is what a server that stops does to requests that take too long.
            with contextlib.suppress(ClientDisconnect, asyncio.CancelledError):
                await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()
            self._on_end()


class JsonAnswer(JSONResponse):
    """JSON in ASCII: half of a surrogate pair that a program sent can be sent back."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False).encode()


def problem_response(problem: BadRequest, headers: Mapping[str, str] | None = None) -> Response:
    """What is wrong, as an answer."""
    return JsonAnswer(problem.to_json(), status_code=problem.status, headers=headers)


def answering(handler: Handler) -> Handler:
    """Turn what ludus raises into an answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except LudusError as error:
            problem = as_bad_request(error)
            return problem_response(problem, {"Retry-After": "1"} if problem.status == 429 else None)
        except ClientDisconnect:
            return Response(status_code=499)
        except asyncio.CancelledError:
            return problem_response(BadRequest("the server is being stopped", status=503))

    return answer


async def while_wanted(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do some work unless whoever asked for it leaves before it is done."""
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        left.cancel()
        task.cancel()
        await asyncio.gather(task, left, return_exceptions=True)


async def http_problem(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths and methods."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return problem_response(BadRequest(f"{request.method} {request.url.path}: {error}", status=status))


async def read_body(request: Request, *, most_bytes: int = MOST_BODY_BYTES, seconds: float | None = None) -> bytes:
    """The body of a request that carries JSON.

    Raises:
        BadRequest: it carries something else, too much, or not all of it in time.
    """
    # Only with this type does a browser ask first before it sends another site's request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("expected Content-Type: application/json", status=415)
    body, seconds = bytearray(), deadlines.BODY_S if seconds is None else seconds
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise BadRequest(f"the body has more than {most_bytes:,} bytes", status=413)
    except TimeoutError:
        raise BadRequest(f"the body did not arrive within {seconds:g} s", status=408) from None
    return bytes(body)


def read_token(environment: Mapping[str, str] = os.environ) -> str:
    """The token that requests must carry; empty when none is set.

    Raises:
        ConfigError: it is too short to keep anybody out, or cannot stand in a header.
    """
    token = environment.get(TOKEN_VARIABLE, "").strip()
    return check_token(token, TOKEN_VARIABLE) if token else ""


def check_token(token: str, place: str) -> str:
    """The token itself; `place` is where it stands, for people.

    Raises:
        ConfigError: it is too short to keep anybody out, or cannot stand in a header.
    """
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{place}: expected at least {SHORTEST_TOKEN} printable ASCII characters without spaces; "
            "make one with: openssl rand -hex 16"
        )
    return token


def check_reach(host: str, token: str, remedy: str = f"set {TOKEN_VARIABLE}") -> None:
    """Refuse an address that others can reach when there is no token; `remedy` says how one is given."""
    if not token and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: others could reach the server there, so it needs a token; {remedy}, "
            "or leave --host at 127.0.0.1"
        )


class Guard:
    """ASGI middleware that turns away whoever may not come in."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it with what is wrong."""
        if scope["type"] == "http":
            problem = self._problem(scope["path"], Headers(scope=scope))
            if problem is not None:
                await problem_response(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _problem(self, path: str, headers: Headers) -> BadRequest | None:
        if not self._token:
            host = headers.get("host", "")
            if is_loopback(without_port(host)):
                return None
            return BadRequest(f"this server answers to 127.0.0.1 and localhost, not to {host[:100]!r}", status=403)
        if path in OPEN_PATHS:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return None
        return BadRequest("the request does not carry the server's token (Authorization: Bearer ...)", status=401)
