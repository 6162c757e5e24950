"""`/api/runs/{run}/episodes`: search, one episode, its tokens, its group, and downloads of what was found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ludus.records import Episode
from ludus.reports.episode_files import json_line, pgn_game
from ludus.reports.episode_index import MOST_PAGE, EpisodeQuery, EpisodeRow
from ludus.reports.episode_view import MOST_TOKENS, view_episode, view_tokens
from ludus.web.answers import Refused
from ludus.web.api.league import reader_of
from ludus.web.query import choice, number, text, whole
from ludus.web.routes import Route, reading
from ludus.web.site import Site

RESULTS = ("", "won", "drawn", "lost", "failed", "cut")
PURPOSES = ("", "train", "evaluate")
MOST_DOWNLOADED = 10_000
MOST_OF_GROUP = 64
NUMBERS = ("task", "row", "min_length", "max_length")


def query_of(request: Request) -> EpisodeQuery:
    """What is looked for."""
    numbers = {name: whole(request, name, -1) if text(request, name) else None for name in NUMBERS}
    return EpisodeQuery(
        policy=text(request, "policy"),
        opponent=text(request, "opponent"),
        result=choice(request, "result", RESULTS),
        purpose=choice(request, "purpose", PURPOSES),
        game=text(request, "game"),
        group=text(request, "group"),
        text=text(request, "id"),
        min_reward=number(request, "min_reward"),
        max_reward=number(request, "max_reward"),
        **numbers,
    )


def list_episodes(site: Site, request: Request) -> dict[str, Any]:
    """A page of what is found, newest first."""
    query, reader = query_of(request), reader_of(site, request)
    offset, limit = whole(request, "offset", 0), whole(request, "limit", 100, least=1, most=MOST_PAGE)
    page = reader.episodes.search(query, offset=offset, limit=limit)
    reader.prepare()
    return {
        "rows": [_listed(row, query) for row in page.rows],
        "offset": offset,
        "total": page.found,
        "recorded": page.recorded,
        "left_out": page.left_out,
        "problems": page.problems,
    }


def list_matches(site: Site, request: Request) -> dict[str, Any]:
    """The games of two members: `row` and `column` of a payoff table."""
    query = EpisodeQuery(policy=text(request, "row"), opponent=text(request, "column"))
    page = reader_of(site, request).episodes.search(query, limit=whole(request, "limit", 100, least=1, most=MOST_PAGE))
    return {"rows": [_listed(row, query) for row in page.rows], "total": page.found, "problems": page.problems}


def tell_episode(site: Site, request: Request) -> dict[str, Any]:
    """One episode with its boards or turns, and the others of its group."""
    reader, episode = reader_of(site, request), _episode(site, request)
    view = view_episode(episode, reader.sequences.find(episode.id))
    group = episode.task.group
    others = (
        reader.episodes.search(EpisodeQuery(group=group, game=episode.task.game), limit=MOST_OF_GROUP)
        if group
        else None
    )
    return {**view, "siblings": [_listed(row, EpisodeQuery()) for row in (others.rows if others else ())][::-1]}


def tell_tokens(site: Site, request: Request) -> dict[str, Any]:
    """A part of a sequence's tokens."""
    reader = reader_of(site, request)
    sequences = reader.sequences.find(request.path_params["id"])
    place = whole(request, "sequence", 0)
    if place >= len(sequences):
        raise Refused("the tokens of this sequence are not recorded (any more)", status=404)
    decode, problem = reader.decoding
    limit = whole(request, "limit", MOST_TOKENS, least=1, most=MOST_TOKENS)
    return {
        **view_tokens(sequences[place], decode, offset=whole(request, "offset", 0), limit=limit),
        "problem": problem,
    }


def _episode(site: Site, request: Request) -> Episode:
    episode = reader_of(site, request).episodes.find(request.path_params["id"])
    if episode is None:
        raise Refused("this episode is not kept (any more)", status=404)
    return episode


def _listed(row: EpisodeRow, query: EpisodeQuery) -> dict[str, Any]:
    seat = row.seat_of(query.policy) if query.policy else 0
    return {**asdict(row), "seat": seat, "result": row.result(seat or 0)}


async def download_lines(site: Site, request: Request) -> Response:
    """What is found as JSON lines."""
    found = _found(site, request)
    return _download((json_line(each) for each in found), "application/x-ndjson", "episodes.jsonl")


async def download_pgn(site: Site, request: Request) -> Response:
    """Games of chess that are found, as PGN."""
    games = (pgn_game(each) for each in _found(site, request))
    return _download((game for game in games if game), "application/x-chess-pgn", "episodes.pgn")


def _found(site: Site, request: Request) -> Iterator[Episode]:
    limit = whole(request, "limit", MOST_DOWNLOADED, least=1, most=MOST_DOWNLOADED)
    return reader_of(site, request).episodes.episodes(query_of(request), most=limit)


def _download(lines: Iterator[str], kind: str, name: str) -> Response:
    """Lines as they are read, in a thread, so that no other request waits."""

    async def body() -> AsyncIterator[bytes]:
        while (line := await asyncio.to_thread(next, lines, None)) is not None:
            yield line.encode("utf-8", "replace")

    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return StreamingResponse(body(), media_type=kind, headers=headers)


ROUTES = (
    Route(pattern="/api/runs/{run}/episodes", handler=reading(list_episodes)),
    Route(pattern="/api/runs/{run}/episodes.jsonl", handler=download_lines),
    Route(pattern="/api/runs/{run}/episodes.pgn", handler=download_pgn),
    Route(pattern="/api/runs/{run}/episodes/{id}", handler=reading(tell_episode)),
    Route(pattern="/api/runs/{run}/episodes/{id}/tokens", handler=reading(tell_tokens)),
    Route(pattern="/api/runs/{run}/matches", handler=reading(list_matches)),
)
