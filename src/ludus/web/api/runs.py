"""`/api/runs`: every run below the folder, filtered, sorted and grouped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request

from ludus.monitor.run_index import RunRow
from ludus.web.answers import part_of
from ludus.web.query import choice, text, whole
from ludus.web.routes import Route, reading
from ludus.web.site import Site

SORTS = ("began", "id", "name", "state", "plays", "algorithm", "seed", "wall_s", "steps", "result_text")
GROUPS = ("", "folder", "name", "plays", "algorithm", "state", "seed")
MOST_ROWS = 1000


def list_runs(site: Site, request: Request) -> dict[str, Any]:
    """A page of the list. `filter`: words that a run must have, `-word` for those that it must not."""
    sort, label = choice(request, "sort", SORTS), choice(request, "label", GROUPS)
    is_down = choice(request, "order", ("down", "up")) == "down"
    rows = [row.to_json() for row in matching(site.index.rows(), text(request, "filter"))]
    rows.sort(key=lambda row: _sortable(row.get(sort)), reverse=is_down)
    if label:
        rows.sort(key=lambda row: str(row.get(label, "")))
    page = part_of(rows, whole(request, "offset", 0), whole(request, "limit", MOST_ROWS, most=MOST_ROWS))
    groups = [str(row.get(label, "")) for row in rows] if label else []
    return {**page, "groups": {name: groups.count(name) for name in dict.fromkeys(groups)}}


def matching(rows: Iterable[RunRow], words: str) -> list[RunRow]:
    """The rows that have all words somewhere, and none of those with a minus."""
    wanted = [word.lower() for word in words.split() if word != "-"]
    found = []
    for row in rows:
        told = row.to_json()
        shown = " ".join(str(told.get(name, "")) for name in (*SORTS, "error")).lower()
        if all((word[1:] not in shown) if word.startswith("-") else (word in shown) for word in wanted):
            found.append(row)
    return found


def _sortable(value: object) -> tuple[int, float, str]:
    """Numbers before text, what is missing last."""
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (2, 0.0, str(value).lower()) if value else (0, 0.0, "")


ROUTES = (Route(pattern="/api/runs", handler=reading(list_runs)),)
