"""`/api/matches`: ask for games between two members of a run, as `ludus match` plays them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ludus.monitor.league_view import read_league
from ludus.storage.run_directory import RunDirectory
from ludus.web.answers import Refused, json_response
from ludus.web.api.play import owner_of
from ludus.web.play.matches import Match
from ludus.web.routes import Route
from ludus.web.security.bodies import read_json_body
from ludus.web.site import Site

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=300, pattern=r"^[^\x00]*\Z")]


class Wish(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Who is to play whom, and how often."""

    run: str
    row: Name
    column: Name
    games: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    game: Annotated[str, msgspec.Meta(max_length=300, pattern=r"^[^\x00]*\Z")] = ""
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    record: bool = False
    """Count the games in the run's ladder: a change of the run."""


async def begin(site: Site, request: Request) -> Response:
    """Begin a match."""
    wish = await read_json_body(request, Wish)
    session = site.sessions.find(request.headers.get("cookie", ""))
    if wish.record and (session is None or not session.may_control):
        raise Refused("games that count change the run; start the page with: ludus web --control", status=403)
    directory = site.folder.open(wish.run)
    async with site.readers:
        await asyncio.to_thread(_check_members, site, directory, wish)
    asked: dict[str, Any] = msgspec.structs.asdict(wish)
    return json_response(await site.matches.begin(str(directory.path), asked, owner_of(site, request)))


def _check_members(site: Site, run: RunDirectory, wish: Wish) -> None:
    """Only those of the table: other names of players would start programs or ask other hosts."""
    payoffs = read_league(run, site.runs.of(run).config).get("payoffs") or {"rows": [], "columns": []}
    members = {*payoffs["rows"], *payoffs["columns"]}
    for name in (wish.row, wish.column):
        if name not in members:
            raise Refused(f"{name[:100]!r} is not in the payoff table of {wish.run[:100]}", status=422)


async def look(site: Site, request: Request) -> Response:
    """How far it is, or what came of it."""
    return json_response(_found(site, request).state)


async def stop(site: Site, request: Request) -> Response:
    """End it."""
    match = _found(site, request)
    await match.stop()
    return json_response(match.state)


def _found(site: Site, request: Request) -> Match:
    return site.matches.find(request.path_params["match"], owner_of(site, request))


ROUTES = (
    Route(pattern="/api/matches", handler=begin, method="POST"),
    Route(pattern="/api/matches/{match}", handler=look),
    Route(pattern="/api/matches/{match}/stop", handler=stop, method="POST"),
)
