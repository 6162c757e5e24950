"""`ludus bench web`: its runs are runs as ludus writes them, and its browser sees what a person would."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.web.conftest import server_of

from ludus.bench.chromium import INSTALL, find_chromium, open_chromium
from ludus.bench.measuring import Figure
from ludus.bench.web_pages import CURVE_SHOWN, TimedPage
from ludus.bench.web_runs import Sizes, episode_id, make_runs
from ludus.bench.web_server import web_server
from ludus.web.static_page import BUILT, INDEX

TOKENS = "document.querySelectorAll('.tokens .token').length"
SMALL = Sizes(points=40_000, episodes=40, tokens=2500, runs=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_runs(folder, SMALL)
    return folder


def test_the_runs_that_are_looked_at_are_read_without_a_problem(made: Path) -> None:
    with server_of(made / "one") as server:
        rows = {row["id"]: row for row in server.get("/api/runs")["rows"]}
        assert {row["state"] for row in rows.values()} == {"finished"}
        assert not any(row["error"] for row in rows.values())
        curve = server.get("/api/runs/points/series?name=train/loss&buckets=100")["series"]["train/loss"]
        assert curve["points"] == SMALL.points // 20
        games = server.get("/api/runs/games/episodes")
        assert (games["total"], games["problems"]) == (SMALL.episodes, [])
        game = server.get(f"/api/runs/games/episodes/{episode_id(7)}")
        assert game["board"]["problem"] == ""
        assert game["decisions"][0]["logp"] < 0
        tokens = server.get(f"/api/runs/words/episodes/{episode_id(0)}/tokens")
        assert tokens["total"] == SMALL.tokens
        assert {"advantage", "ratio", "kl"} <= tokens["columns"].keys()
    with server_of(made / "many") as server:
        assert [row["seed"] for row in server.get("/api/runs?sort=seed&order=up")["rows"]] == [0, 1, 2]


def test_a_figure_says_whether_it_keeps_its_bound() -> None:
    assert Figure.bounded("a", 99.0, "ms", most=100.0).verdict == "kept: at most 100"
    assert Figure.bounded("a", 49.0, "frames", least=50.0).verdict == "MISSED: at least 50"
    assert Figure.alone("a", 1.0, "ms").verdict == ""


@pytest.mark.slow
def test_a_browser_sees_a_page_is_timed_and_leaves_nothing_behind(made: Path) -> None:
    program = find_chromium()
    if program is None:
        pytest.skip(f"needs Chromium; install it with: {INSTALL}")
    if not (BUILT / INDEX).is_file():
        pytest.skip("needs the page; build it with: make web")
    with web_server(made / "one") as server, open_chromium(program) as browser:
        page = TimedPage(browser, server.origin)
        opened = page.open("/run/demo", "document.querySelector('dl.facts .state')")
        assert 0 < opened["first_paint"] <= opened["shown"]
        page.open("/run/points/curves?m=train/loss", CURVE_SHOWN)
        assert page.zoom() > 0
        assert page.scroll()["frames_per_s"] > 1
        page.open(f"/run/words/episodes/{episode_id(0)}", f"{TOKENS} === 2000")
        more = "[...document.querySelectorAll('button')].find((each) => each.textContent === 'Show more').click()"
        page.act(f"{more}; {more}", f"{TOKENS} === {SMALL.tokens}")  # asked for twice, shown once
        assert browser.resident_bytes("renderer") > 10_000_000
        pid = browser.pid
    assert not Path(f"/proc/{pid}").exists()
