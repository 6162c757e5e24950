"""Who may talk to the server: this machine alone, or whoever has the token.

Invariants: a server that others can reach has a token, and every request but `/health` must carry it; one without a
token answers only to the names of this machine, so that a web page in a local browser cannot reach it under another.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ludus.errors import ConfigError
from ludus.http.problems import BadRequest
from ludus.inference.addresses import is_loopback

TOKEN_VARIABLE = "LUDUS_SERVE_TOKEN"  # noqa: S105  the name of a variable, not what is in it
SHORTEST_TOKEN = 16
OPEN_PATHS = ("/health",)


def read_token(environment: Mapping[str, str] = os.environ) -> str:
    """The token that requests must carry; empty when none is set.

    Raises:
        ConfigError: it is too short to keep anybody out, or cannot stand in a header.
    """
    token = environment.get(TOKEN_VARIABLE, "").strip()
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise ConfigError(
            f"{TOKEN_VARIABLE}: expected at least {SHORTEST_TOKEN} printable ASCII characters without spaces; "
            "make one with: openssl rand -hex 16"
        )
    return token


def check_reach(host: str, token: str) -> None:
    """Refuse an address that others can reach when there is no token."""
    if not token and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: others could reach the server there, so it needs a token; set {TOKEN_VARIABLE}, "
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
                await JSONResponse(problem.to_json(), status_code=problem.status)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _problem(self, path: str, headers: Headers) -> BadRequest | None:
        if not self._token:
            host = headers.get("host", "")
            if is_loopback(_without_port(host)):
                return None
            return BadRequest(f"this server answers to 127.0.0.1 and localhost, not to {host[:100]!r}", status=403)
        if path in OPEN_PATHS:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return None
        return BadRequest("the request does not carry the server's token (Authorization: Bearer ...)", status=401)


def _without_port(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
