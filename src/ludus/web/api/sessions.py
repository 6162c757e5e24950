"""`/api/session`: who this browser is. A token comes in a body, never in an address, and goes for a cookie."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import ludus
from ludus.web.answers import Refused, json_response
from ludus.web.routes import Route
from ludus.web.security.bodies import read_json_body
from ludus.web.security.sessions import Session
from ludus.web.site import Site

WRONG_TOKEN_S = 0.5
"""What a wrong token costs whoever tries."""


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """What a browser says to be let in."""

    token: str = ""


async def tell(site: Site, request: Request) -> Response:
    """What this browser may do; one that is new gets a session where none needs a token."""
    session = site.sessions.find(request.headers.get("cookie", ""))
    if session is None and not site.sessions.needs_token:
        session = site.sessions.enter("")
    return _answer(site, session)


async def enter(site: Site, request: Request) -> Response:
    """Exchange a token for a session."""
    entry = await read_json_body(request, Entry)
    session = site.sessions.enter(entry.token)
    if session is None:
        await asyncio.sleep(WRONG_TOKEN_S)
        raise Refused(
            "this token is wrong, or it has been used already; start `ludus web` again for a new one", status=403
        )
    return _answer(site, session)


def _answer(site: Site, session: Session | None) -> Response:
    sessions = site.sessions
    told: dict[str, Any] = {
        "version": ludus.__version__,
        "folder": str(site.folder.path),
        "only": site.folder.only,
        "needs_token": sessions.needs_token and session is None,
        "may_control": session is not None and session.may_control,
        "has_control": sessions.has_control,
        "csrf": session.csrf if session is not None else "",
    }
    if session is None:
        return json_response({"needs_token": True})
    response = json_response(told, headers={"vary": "cookie"})
    response.headers["cache-control"] = "no-store"
    response.set_cookie(sessions.cookie_name, session.id, httponly=True, samesite="strict", path="/")
    return response


ROUTES = (
    Route(pattern="/api/session", handler=tell, is_open=True),
    Route(pattern="/api/session", handler=enter, method="POST", is_open=True),
)
