"""Every address of a run, before whatever its directory may hold: an answer, never a failure, and what is wrong named."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reports.made_runs import episode, make_run, record, record_rows, rows_of
from tests.web.conftest import Serve
from tests.web.test_news import Stream

from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog
from ludus.web.api import ROUTES

PAGES = sorted(
    route.pattern
    for route in ROUTES
    if "{run}" in route.pattern and route.method == "GET" and "{game}" not in route.pattern
)
QUERIES = {"series": "?name=train/loss", "matches": "?row=main&column=random"}
LOCK_S = 5.0
"""What a page may take whose catalog somebody else has locked."""


def _none(run: RunDirectory) -> None:
    """As it was made."""


def _newer(run: RunDirectory) -> None:
    run.format.write_text('{"format": 99, "system": "ludus"}')


def _no_catalog(run: RunDirectory) -> None:
    run.catalog.unlink()


def _rotten_catalog(run: RunDirectory) -> None:
    run.catalog.write_bytes(b"no database" * 999)


def _bare(run: RunDirectory) -> None:
    """Nothing but what makes it a run."""
    for path in run.path.iterdir():
        if path.name not in ("format.json", "config.yaml"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _empty_files(run: RunDirectory) -> None:
    for path in run.path.rglob("*"):
        if path.is_file() and path.name not in ("format.json", "config.yaml"):
            path.write_bytes(b"")


def _torn(run: RunDirectory) -> None:
    for path in (*run.episodes.glob("*.arrow"), *run.experiences.glob("*.arrow")):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run.metrics.write_bytes(b'{"time":1,"step":2,"train/loss":NaN}\n{"step":"x"}\n[1]\n\xff\n{"time":3,"st')
    run.events.write_bytes(b'{"time":"x","event":7}\n{"event":null}\nnull\n{"torn')


def _folders_for_files(run: RunDirectory) -> None:
    for path in (run.metrics, run.events, run.catalog):
        path.unlink(missing_ok=True)
        path.mkdir()


def _bad_config(run: RunDirectory) -> None:
    run.config.write_bytes(b"name: [\xff")


def _quarantined(run: RunDirectory) -> None:
    """As the next start of the run leaves it."""
    _torn(run)
    with Catalog(run.catalog) as catalog:
        SegmentLog(run.path, "episodes", catalog)
        SegmentLog(run.path, "experiences", catalog)


DAMAGES = (
    *(_none, _newer, _no_catalog, _rotten_catalog, _bare, _empty_files, _torn, _folders_for_files, _bad_config),
    _quarantined,
)


@pytest.fixture
def made(tmp_path: Path) -> RunDirectory:
    run = make_run(tmp_path / "runs" / "made")
    played = [episode(number) for number in range(4)]
    record(run, played)
    record_rows(run, rows_of(played))
    run.metrics.write_bytes(b'{"time":1,"step":1,"train/loss":0.5}\n')
    run.events.write_bytes(b'{"time":1,"event":"opened"}\n')
    return run


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_every_page_answers_whatever_the_directory_holds(
    serve: Serve, made: RunDirectory, damage: Callable[[RunDirectory], None]
) -> None:
    server = serve(made.path.parent)
    damage(made)
    for pattern in PAGES:
        path = pattern.replace("{run}", "made").replace("{id}", "e00001")
        answer = server.ask(path + QUERIES.get(path.rpartition("/")[2], ""))
        assert answer.status in (200, 404, 422), (path, answer.body)
        assert answer.headers["x-content-type-options"] == "nosniff"
        if answer.status != 200:
            assert answer.json["error"], path
    assert [row["id"] for row in server.get("/api/runs")["rows"]] == ["made"]
    stream = Stream(server, "made")
    told = stream.until(lambda told: told.get("connection", {}).get("state", "starting") != "starting")
    stream.close()
    assert told["connection"]["words"]


def test_segments_in_quarantine_are_named(serve: Serve, made: RunDirectory) -> None:
    _quarantined(made)
    problems = serve(made.path.parent).get("/api/runs/made")["problems"]
    assert sum("is in quarantine" in problem for problem in problems) == 2


def test_a_catalog_that_is_locked_holds_up_no_page_for_long(serve: Serve, made: RunDirectory) -> None:
    make_run(made.path.parent / "other")
    server = serve(made.path.parent)
    lock = sqlite3.connect(made.catalog)
    lock.execute("PRAGMA journal_mode = DELETE")
    lock.execute("BEGIN EXCLUSIVE")
    try:
        for path in ("/api/runs", "/api/runs/made", "/api/runs/made/league", "/api/runs/made/refused"):
            began = time.monotonic()
            answer = server.ask(path)
            assert time.monotonic() - began < LOCK_S, path
            assert answer.status == 200, answer.body
        assert any("locked" in problem for problem in server.get("/api/runs/made")["problems"])
        assert server.get("/api/runs/other")["problems"] == []
    finally:
        lock.close()
    assert server.get("/api/runs/made")["problems"] == []
