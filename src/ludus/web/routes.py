"""The table of routes: what is not in it does not exist, whatever the path says.

A pattern is matched against the path as it was sent, piece by piece, so that a run's id may hold an encoded slash.
Invariant: only GET, HEAD and POST are known; a POST needs a session and its CSRF header, and one that changes a run
needs a session that may control. To add a route: a `Route` in the `ROUTES` of a module of `api/`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ludus.errors import LudusError
from ludus.plugin_frames import in_words
from ludus.web.answers import Refused, json_response, problem_response
from ludus.web.security.sessions import CSRF_HEADER
from ludus.web.site import Site

Handler = Callable[[Site, Request], Awaitable[Response]]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path and what answers it. `{run}` stands for one piece of the path."""

    pattern: str
    handler: Handler
    method: Literal["GET", "POST"] = "GET"
    changes_run: bool = False
    """Whether the session must be one that may control."""
    is_open: bool = False
    """Whether it is served without a session, where the server has a token."""

    def match(self, pieces: Sequence[str]) -> dict[str, str] | None:
        """The named pieces of a path; None where it is another path."""
        expected = self.pattern.strip("/").split("/")
        if len(expected) != len(pieces):
            return None
        found: dict[str, str] = {}
        for wanted, piece in zip(expected, pieces, strict=True):
            if wanted.startswith("{"):
                found[wanted[1:-1]] = piece
            elif wanted != piece:
                return None
        return found


def reading(read: Callable[[Site, Request], Any]) -> Handler:
    """A handler from a function that reads files: it runs in a thread, its value is the answer."""

    @wraps(read)
    async def handler(site: Site, request: Request) -> Response:
        async with site.readers:
            value = await asyncio.to_thread(read, site, request)
        return json_response(value, known_tag=request.headers.get("if-none-match", ""))

    return handler


class RouteTable:
    """The application behind the gate: finds the route and answers, whatever happens, with JSON or a page."""

    def __init__(self, site: Site, routes: Sequence[Route], pages: Handler) -> None:
        """`pages` answers every GET outside `/api/`."""
        self._site = site
        self._routes = tuple(routes)
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Refused as error:
            headers = {"retry-after": "1"} if error.status == 503 else {}
            response = problem_response(str(error), error.status, headers)
        except LudusError as error:
            response = problem_response(str(error), 422)
        except ClientDisconnect:
            return
        except OSError as error:
            response = problem_response(f"a file of the run cannot be read: {error.strerror or error}", 404)
        except Exception as error:  # the last line of defence: one page must not take the others down
            log.exception("%s %s", request.method, request.url.path)
            response = problem_response(f"this cannot be shown: {in_words(error)}", 500)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        pieces = _pieces(request.scope)
        if pieces[0] != "api":
            self._allow(request, ["GET"])
            return await self._pages(self._site, request)
        found = [(route, match) for route in self._routes if (match := route.match(pieces)) is not None]
        if not found:
            raise Refused("there is nothing at this address", status=404)
        self._allow(request, [route.method for route, _ in found])
        method = "POST" if request.method == "POST" else "GET"
        route, match = next(each for each in found if each[0].method == method)
        self._authorise(route, request)
        request.scope["path_params"] = match
        return await route.handler(self._site, request)

    def _allow(self, request: Request, methods: Sequence[str]) -> None:
        allowed = {*methods, *(["HEAD"] if "GET" in methods else [])}
        if request.method not in allowed:
            raise Refused(f"{request.method} is not allowed here; allowed: {', '.join(sorted(allowed))}", status=405)

    def _authorise(self, route: Route, request: Request) -> None:
        sessions = self._site.sessions
        session = sessions.find(request.headers.get("cookie", ""))
        if sessions.needs_token and not route.is_open and (session is None or not session.may_read):
            raise Refused("this server needs its token; open the address that it printed", status=401)
        if route.method == "GET" or route.is_open:
            return
        if session is None or not session.has_csrf(request.headers.get(CSRF_HEADER, "")):
            raise Refused("the request does not come from the page itself; reload the page", status=403)
        if route.changes_run and not session.may_control:
            raise Refused("this page only reads; start it with: ludus web --control, and open its address", status=403)


def _pieces(scope: Scope) -> list[str]:
    """The path as it was sent, cut at its slashes, each piece decoded."""
    raw = bytes(scope.get("raw_path") or scope["path"].encode())
    try:
        return [unquote(piece, errors="strict") for piece in raw.decode("ascii").strip("/").split("/")]
    except UnicodeDecodeError:
        raise Refused("the path is not text", status=400) from None
