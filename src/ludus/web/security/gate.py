"""The gate: every request passes it, events and files included, before anything looks at its path.

Invariant: a request is let in only under a name of this server (so no web page reaches it by a name of its own, which
is DNS rebinding), from no other site, with a known method, and within bounds. Every answer, also a refusal, carries
the headers that keep the page to itself.
"""

from __future__ import annotations

import ipaddress
import re
import socket

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ludus.inference.addresses import is_loopback, without_port
from ludus.web.answers import Refused, problem_response

NAME = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?", re.ASCII)
"""What a browser sends as Host: a name or an address, and a port."""
METHODS = ("GET", "HEAD", "POST")
MOST_PATH_BYTES, MOST_HEADER_BYTES = 8192, 32_768
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "object-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, host: str) -> None:
        """`host` is the address that the server was told to listen on."""
        self._app = app
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or turn it away."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        try:
            self._check(scope)
        except Refused as error:
            allow = {"allow": ", ".join(METHODS)} if error.status == 405 else {}
            await problem_response(str(error), error.status, {**allow, "connection": "close"})(
                scope, receive, send_guarded
            )
            return
        await self._app(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in headers.raw) > MOST_HEADER_BYTES:
            raise Refused("the headers are too large", status=431)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            raise Refused(f"this server does not answer to the name {', '.join(hosts)[:100]!r}", status=421)
        if scope["method"] not in METHODS:
            raise Refused(f"{scope['method'][:20]} is not allowed", status=405)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_PATH_BYTES:
            raise Refused("the address is too long", status=414)
        for origin in headers.getlist("origin"):
            if origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
                raise Refused("requests from other sites are refused", status=403)
        if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site") and not _is_navigation(headers, scope):
            raise Refused("requests from other sites are refused", status=403)

    def _is_own(self, given: str) -> bool:
        if NAME.fullmatch(given) is None:
            return False
        name = without_port(given)
        if is_loopback(self._host):
            return is_loopback(name)
        own = {self._host.lower().strip("[]"), socket.gethostname().lower()}
        return is_loopback(name) or name in own or _is_address(name)


def _is_navigation(headers: Headers, scope: Scope) -> bool:
    """A link on another site that leads to a page here: it gets the page, which has no content of its own."""
    is_page = not scope["path"].startswith("/api")
    return is_page and scope["method"] == "GET" and headers.get("sec-fetch-dest") == "document"


def _is_address(name: str) -> bool:
    """An address is no name, and so cannot be pointed here by somebody else's DNS."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
