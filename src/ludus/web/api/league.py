"""`/api/runs/{run}/league`, `tasks`, `refused`: one page each of what a run knows of strength, tasks and refusals."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from ludus.monitor.league_view import read_league
from ludus.monitor.refused_view import read_refused
from ludus.monitor.task_view import read_tasks
from ludus.web.routes import Route, reading
from ludus.web.run_readers import RunReader
from ludus.web.site import Site


def reader_of(site: Site, request: Request) -> RunReader:
    """The reader of the run that the path names."""
    return site.runs.of(site.folder.open(request.path_params["run"]))


def tell_league(site: Site, request: Request) -> dict[str, Any]:
    """Ladder, payoffs, meta-strategy, lineage."""
    reader = reader_of(site, request)
    return read_league(reader.run, reader.config)


def tell_tasks(site: Site, request: Request) -> dict[str, Any]:
    """Tasksets with the pass rate of each task."""
    reader = reader_of(site, request)
    return read_tasks(reader.run, reader.config, reader.episodes)


def tell_refused(site: Site, request: Request) -> dict[str, Any]:
    """Counts by reason, and samples."""
    reader = reader_of(site, request)
    return read_refused(reader.run, reader.config)


ROUTES = (
    Route(pattern="/api/runs/{run}/league", handler=reading(tell_league)),
    Route(pattern="/api/runs/{run}/tasks", handler=reading(tell_tasks)),
    Route(pattern="/api/runs/{run}/refused", handler=reading(tell_refused)),
)
