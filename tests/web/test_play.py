"""A person in the browser plays against a version: over a real socket, with a real process at the other side."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.web.conftest import Serve, Server

from ludus.web.play import tables

# uvloop forks where a test of JAX may have run before in this process; `ludus web` itself never loads JAX.
pytestmark = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")

WAITS = "import sys; print('{\"turn\": true}', flush=True); sys.stdin.read()"
"""In place of `ludus.cli.play_lines`: it is ready at once, and waits until the server lets it go."""


@pytest.fixture
def server(runs: Path, serve: Serve) -> Server:
    found = serve(runs)
    found.enter()
    return found


def test_versions_that_one_can_play_are_listed(server: Server) -> None:
    told = server.get("/api/runs/study%2Fkuhn/opponents")
    assert told["games"] == ["open_spiel:kuhn_poker"]
    assert told["versions"][0].startswith("main@")


def test_what_does_not_come_from_the_page_is_refused(server: Server) -> None:
    server.csrf = "forged"
    assert server.ask("/api/play", "POST", body={"run": "study/kuhn"}).status == 403
    assert server.ask("/api/play/nothing").status == 404


def test_games_that_are_asked_for_together_are_counted(
    serve: Serve, runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "player_that_waits.py").write_text(WAITS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tables, "MODULE", "player_that_waits")
    server = serve(runs)
    browsers = [Server(server.port, server.site) for _ in range(12)]
    for browser in browsers:
        browser.enter()
    with ThreadPoolExecutor(len(browsers)) as pool:
        asked = pool.map(lambda each: each.ask("/api/play", "POST", body={"run": "study/kuhn"}).status, browsers)
        assert sorted(asked) == [200] * tables.MOST_TABLES + [503] * (len(browsers) - tables.MOST_TABLES)
    assert len(server.site.tables._tables) == tables.MOST_TABLES


@pytest.mark.slow
def test_a_game_is_played_to_its_end(server: Server) -> None:
    begun = server.ask("/api/play", "POST", body={"run": "study/kuhn", "seat": 0, "seed": 3})
    assert begun.status == 200, begun.body
    game = begun.json
    address = f"/api/play/{game['id']}"
    wrong = server.ask(f"{address}/move", "POST", body={"move": 99}).json
    assert "no legal move" in wrong["error"]
    assert wrong["turn"], "the game goes on"
    while not game["outcome"]:
        game = server.ask(f"{address}/move", "POST", body={"move": game["legal"][0]["move"]}).json
    assert len(game["returns"]) == 2
    assert server.get(address)["outcome"] == game["outcome"], "a page that is loaded anew sees it"
    assert server.ask(f"{address}/move", "POST", body={"move": 0}).status == 409


@pytest.mark.slow
def test_a_process_that_dies_costs_its_own_game(server: Server) -> None:
    assert server.ask("/api/play", "POST", body={"run": "study/kuhn", "policy": "main@999"}).status == 422
    game = server.ask("/api/play", "POST", body={"run": "study/kuhn"}).json
    (table,) = server.site.tables._tables.values()
    os.kill(table._process.pid, signal.SIGKILL)
    assert server.ask(f"/api/play/{game['id']}/move", "POST", body={"move": game["legal"][0]["move"]}).status == 410
    assert server.get("/api/runs/study%2Fkuhn/opponents")["versions"]
