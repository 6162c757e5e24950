"""Hostile text is shown as text; what is damaged, missing or newer is named, and the rest of the page works."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser.conftest import Web, settle
from tests.browser.test_every_page import PAGES, check_looks
from tests.reports.made_runs import episode, make_run, record, record_rows, rows_of

from ludus.storage.run_directory import RunDirectory

pytestmark = pytest.mark.browser
Open = Callable[..., Any]
Serve = Callable[..., Web]

EVIL = "<script>window.evil=1</script><img src=x onerror=window.evil=1>\u202egnirts\u2066\u200b\ufffd"
BIDI = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069]")


def hostile_run(folder: Path) -> RunDirectory:
    """A run whose names, replies, log and refusals are somebody's attack."""
    run = make_run(folder)
    task = {"moves": (1,), "returns": (1.0,), "game": "tasks:sums"}
    asked = ("What is <b>2+2</b>?", EVIL)
    record(
        run,
        [
            episode(0, seats=(EVIL[:60], "random@0")),
            episode(1, seats=("main@1",), move_texts=asked[:1], replies=asked[1:], inputs={"row": 2}, **task),
            episode(2, seats=("main@1",), move_texts=("long?",), replies=("A" * 1_000_000,), inputs={"row": 3}, **task),
        ],
    )
    why = {"reason": np.array([EVIL], object), "detail": np.array([EVIL], object)}
    record_rows(run, rows_of([episode(7)]).replace(sequences=why), "refused")
    with run.events.open("ab") as events:
        events.write(json.dumps({"time": 1.0, "event": "started", "note": EVIL}).encode() + b"\n")
        events.write(b'{"time": 2.0, "event": "odd", "note": "\\ud800 \xff\xfe"}\n')
    with run.metrics.open("ab") as metrics:
        metrics.write(json.dumps({"time": 1.0, "step": 1, EVIL: 1.0, "train/loss": 0.5}).encode() + b"\n")
    attempt = run.logs / "attempt_1"
    attempt.mkdir(parents=True)
    (attempt / "explorer-0.log").write_bytes(EVIL.encode() + b"\n\xff\xfe\x00 raw\n" + b"x" * 1_000_000 + b"\n")
    return run


def check_harmless(page: Any) -> None:
    """Nothing ran, nothing was drawn, and no sign turns the text around."""
    assert page.evaluate("() => window.evil") is None
    assert page.locator("#content img, #content script").count() == 0
    assert not BIDI.search(page.locator("body").inner_text())


def test_hostile_text_is_shown_as_text(open_page: Open, serve: Serve, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    hostile_run(runs / "<img src=x onerror=alert(1)>")
    web = serve(runs)
    page = open_page(web.origin)
    check_harmless(page)
    check_looks(page)
    page.locator("tbody a").click()
    page.wait_for_url(re.compile("/run/"))
    for name in (*PAGES, "episodes/e00000", "episodes/e00001", "episodes/e00002"):
        page.goto(web.of("<img src=x onerror=alert(1)>", name))
        settle(page)
        check_harmless(page)
        assert page.locator("nav.tabs").count() == 1, name
    page.goto(web.of("<img src=x onerror=alert(1)>", "episodes/e00001"))
    settle(page)
    assert "<script>window.evil=1</script>" in page.locator(".turns").inner_text()
    page.goto(web.of("<img src=x onerror=alert(1)>", "refused"))
    settle(page)
    assert "<script>window.evil=1</script>" in page.locator("#content").inner_text()
    check_looks(page)


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """A folder with a copy of the board run, to be damaged."""
    shutil.copytree(runs / "board", tmp_path / "runs" / "board")
    return tmp_path / "runs"


def test_damaged_files_are_named_and_the_rest_is_shown(
    open_page: Open, complaints: list[Any], serve: Serve, copied: Path
) -> None:
    run = RunDirectory(copied / "board")
    run.catalog.write_bytes(b"no database" * 999)
    with run.metrics.open("ab") as metrics:
        metrics.write(b'{"time": 3.0, "step": 9, "train/loss": NaN}\n{"time": 4.0, "st')
    segments = sorted(run.path.glob("episodes/*"))
    segments[0].write_bytes(segments[0].read_bytes()[:-9])
    segments[1].unlink()
    web = serve(copied)
    page = open_page(web.origin)
    complaints[0].expected = ("Failed to load resource",)
    page.get_by_role("link", name="board").click()
    page.locator(".notice", has_text="catalog").first.wait_for()
    assert page.locator("figure.chart").count() > 0, "evaluations are shown"
    for name in PAGES:
        page.goto(web.of("board", name))
        settle(page)
        assert page.locator("nav.tabs").count() == 1
    page.goto(web.of("board", "curves"))
    settle(page)
    page.locator("figure.chart").first.wait_for()
    page.goto(web.of("board", "league"))
    settle(page)
    page.locator(".notice", has_text="catalog").first.wait_for()


def test_a_newer_run_format_is_named(open_page: Open, complaints: list[Any], serve: Serve, copied: Path) -> None:
    run = RunDirectory(copied / "board")
    run.format.write_text(json.dumps({"format": 99}))
    web = serve(copied)
    page = open_page(web.origin)
    complaints[0].expected = ("Failed to load resource",)
    page.get_by_role("link", name="board").click()
    page.get_by_text(re.compile("format 99|upgrade ludus")).first.wait_for()


def test_a_run_that_is_deleted_while_it_is_open_is_named(
    open_page: Open, complaints: list[Any], serve: Serve, copied: Path
) -> None:
    web = serve(copied)
    page = open_page(web.of("board", "episodes"))
    complaints[0].expected = ("Failed to load resource",)
    shutil.rmtree(copied / "board")
    page.get_by_label("Result").select_option("won")
    page.locator(".notice.error").first.wait_for()
    page.get_by_role("link", name="Runs").click()
    page.get_by_text("No runs here yet").wait_for()


def test_an_empty_run_says_on_each_page_what_is_not_there(open_page: Open, serve: Serve, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "empty")
    web = serve(tmp_path / "runs")
    said = {
        "": "Nothing has been measured yet",
        "curves": "no metrics yet",
        "league": "no league yet",
        "episodes": "0 of 0 episodes",
        "tasks": "No attempts at tasks",
        "refused": "Nothing was refused",
        "play": "no policy yet",
        "log": "No worker has written a log",
        "config": "open_spiel:tic_tac_toe",
    }
    for name, words in said.items():
        page = open_page(web.of("empty", name))
        page.get_by_text(words).first.wait_for()
        check_looks(page)


def test_addresses_that_lead_nowhere_say_so(open_page: Open, complaints: list[Any], web: Web) -> None:
    for path in ("/nowhere", "/run/nobody", "/run/board/nothing", "/run/board/episodes/none", "/run/..%2F..%2Fetc"):
        page = open_page()
        complaints[-1].expected = ("Failed to load resource",)
        page.goto(web.origin + path)
        page.locator(".notice.error, body > pre, pre").first.wait_for()
