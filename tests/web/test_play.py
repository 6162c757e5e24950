"""A person in the browser plays against a version: over a real socket, with a real process at the other side."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.web.conftest import Serve, Server


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
