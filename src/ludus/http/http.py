"""What every route of the API has in common: bodies read within bounds, work given up when nobody waits for it, errors
that OpenAI's clients understand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ludus.errors import LudusError
from ludus.http.problems import BadRequest, as_bad_request

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


def answering(handler: Handler) -> Handler:
    """Turn what ludus raises into an answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except LudusError as error:
            problem = as_bad_request(error)
            headers = {"Retry-After": "1"} if problem.status == 429 else None
            return JSONResponse(problem.to_json(), status_code=problem.status, headers=headers)
        except ClientDisconnect:
            return Response(status_code=499)
        except asyncio.CancelledError:
            problem = BadRequest("the server is being stopped", status=503)
            return JSONResponse(problem.to_json(), status_code=problem.status)

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
    problem = BadRequest(f"{request.method} {request.url.path}: {error}", status=status)
    return JSONResponse(problem.to_json(), status_code=status)


async def read_body(request: Request) -> bytes:
    """The body of a request that carries JSON.

    Raises:
        BadRequest: it carries something else, or too much.
    """
    # Only with this type does a browser ask first before it sends another site's request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("expected Content-Type: application/json", status=415)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            raise BadRequest(f"the body has more than {MOST_BODY_BYTES:,} bytes", status=413)
    return bytes(body)
