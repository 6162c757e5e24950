"""The application: the gate, the table of routes, the page. `ludus web` serves it, and so do its tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from ludus.web.api import ROUTES
from ludus.web.routes import RouteTable
from ludus.web.security.gate import Gate
from ludus.web.site import Site
from ludus.web.static_page import File, StaticPage

MOST_CONNECTIONS = 256


def make_app(site: Site, page: Mapping[str, File], *, host: str = "127.0.0.1") -> Starlette:
    """Everything that one server answers with."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        site.index.warm()
        try:
            yield
        finally:
            await site.close()

    table = RouteTable(site, ROUTES, StaticPage(page).answer)
    return Starlette(routes=[Mount("/", app=table)], middleware=[Middleware(Gate, host=host)], lifespan=lifespan)
