"""`/api/news?run=`: what happens in a run, as it happens (server-sent events)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ludus.http.routes import EventStream
from ludus.web.answers import Refused
from ludus.web.query import text
from ludus.web.routes import Route
from ludus.web.site import Site


async def tell(site: Site, request: Request) -> Response:
    """A stream that goes on until one side leaves."""
    if request.method == "HEAD":
        raise Refused("a stream has no head to look at", status=405)
    run = text(request, "run")
    site.folder.open(run)
    newsroom = site.newsroom
    return EventStream(newsroom.open_stream(site.folder.find(run)), on_end=newsroom.end_stream)


ROUTES = (Route(pattern="/api/news", handler=tell),)
