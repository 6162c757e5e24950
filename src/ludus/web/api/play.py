"""`/api/play`: sit down against a version of a run, and move."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ludus.policies.store import PolicyStore
from ludus.web.answers import Refused, json_response
from ludus.web.api.league import reader_of
from ludus.web.routes import Route, reading
from ludus.web.security.bodies import read_json_body
from ludus.web.site import Site

MOST_VERSIONS = 500
MOST_MOVE = 10_000


class Wish(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which game against whom."""

    run: str
    policy: str = ""
    game: str = ""
    seat: int = 0
    seed: int = 0
    sample: bool = False


class Move(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A move: its number, or its text."""

    move: int | str


def tell_opponents(site: Site, request: Request) -> dict[str, Any]:
    """The versions and games that one can play."""
    reader = reader_of(site, request)
    config, store = reader.config, PolicyStore(reader.run.policies)
    versions = [str(ref) for name in store.names() for ref in store.versions(name)]
    return {
        "versions": versions[-MOST_VERSIONS:][::-1],
        "games": [game.key for game in getattr(config, "games", ())],
        "in_words": config.policy.model is not None,
    }


async def begin(site: Site, request: Request) -> Response:
    """Begin a game."""
    wish = await read_json_body(request, Wish)
    directory = site.folder.open(wish.run)
    wanted = {**msgspec.structs.asdict(wish), "run": str(directory.path)}
    id, state = await site.tables.open(wanted, owner_of(site, request))
    return json_response({"id": id, **state})


async def move(site: Site, request: Request) -> Response:
    """Make a move."""
    said = await read_json_body(request, Move)
    if isinstance(said.move, str) and len(said.move) > MOST_MOVE:
        raise Refused("the move is too long")
    table = site.tables.find(request.path_params["game"], owner_of(site, request))
    return json_response({"id": request.path_params["game"], **await table.move(said.move)})


async def look(site: Site, request: Request) -> Response:
    """The game as it is, for a page that was loaded anew."""
    table = site.tables.find(request.path_params["game"], owner_of(site, request))
    return json_response({"id": request.path_params["game"], **table.state})


def owner_of(site: Site, request: Request) -> str:
    """The id of the session that asks."""
    session = site.sessions.find(request.headers.get("cookie", ""))
    if session is None:
        raise Refused("reload the page first", status=403)
    return session.id


ROUTES = (
    Route(pattern="/api/runs/{run}/opponents", handler=reading(tell_opponents)),
    Route(pattern="/api/play", handler=begin, method="POST"),
    Route(pattern="/api/play/{game}", handler=look),
    Route(pattern="/api/play/{game}/move", handler=move, method="POST"),
)
