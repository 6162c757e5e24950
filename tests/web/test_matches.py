"""A match that is asked for at a cell: members of the table alone, by the page alone, in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Serve, Server

# uvloop forks where a test of JAX may have run before in this process; `ludus web` itself never loads JAX.
pytestmark = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")

WISH = {"run": "study/kuhn", "games": 4}
PATIENCE_S = 240.0


@pytest.fixture
def server(runs: Path, serve: Serve) -> Server:
    found = serve(runs)
    found.enter()
    return found


def members(server: Server) -> list[str]:
    rows: list[str] = server.get("/api/runs/study%2Fkuhn/league")["payoffs"]["rows"]
    return rows


def ask(server: Server, **more: Any) -> Any:
    return server.ask("/api/matches", "POST", body={**WISH, **more})


@pytest.mark.parametrize(
    "name", ["uci:/bin/sh", "openai:http://evil.example", "--record", "minimax-3", "x" * 400, "\0", ""]
)
def test_only_members_of_the_table_play(server: Server, name: str) -> None:
    (first, *_) = members(server)
    for pair in ({"row": first, "column": name}, {"row": name, "column": first}):
        assert ask(server, **pair).status in (400, 422)
    assert not server.site.matches._matches


def test_what_does_not_come_from_the_page_or_is_too_much_is_refused(server: Server) -> None:
    first, second, *_ = members(server)
    pair = {"row": first, "column": second}
    assert ask(server, **pair, games=0).status == 400
    assert ask(server, **pair, games=10**9).status == 400
    assert ask(server, **pair, extra=1).status == 400
    assert ask(server, **{**pair, "run": "../elsewhere"}).status == 404
    assert ask(server, **pair, record=True).status == 403, "it would change the run"
    server.csrf = "forged"
    assert ask(server, **pair).status == 403
    assert server.ask("/api/matches").status == 405
    assert server.ask("/api/matches/nothing").status == 404
    assert not server.site.matches._matches


def over(server: Server, id: str) -> Any:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        told = server.get(f"/api/matches/{id}")
        if told["state"] != "playing":
            return told
        time.sleep(0.1)
    raise AssertionError("the match does not end")


@pytest.mark.slow
def test_a_match_is_played_and_another_browser_does_not_see_it(server: Server, runs: Path) -> None:
    first, second, *_ = members(server)
    before = sorted(path.name for path in (runs / "study" / "kuhn").iterdir())
    begun = ask(server, row=first, column=second).json
    told = over(server, begun["id"])
    assert told["state"] == "done", told
    assert told["report"]["a"].startswith(first)
    assert (told["report"]["games"], told["done"]) == (4, 4)
    assert sorted(path.name for path in (runs / "study" / "kuhn").iterdir()) == before, "the run is as it was"
    own, server.cookie = (server.cookie, server.csrf), ""
    server.enter()
    assert server.ask(f"/api/matches/{begun['id']}").status == 404
    server.cookie, server.csrf = own
    failed = over(server, ask(server, row=first, column=second, game="chess").json["id"])
    assert failed["state"] == "failed"
    assert "does not play chess" in failed["problem"]


@pytest.mark.slow
def test_a_new_match_ends_the_one_before_and_none_outlives_the_server(server: Server) -> None:
    first, second, *_ = members(server)
    begun = ask(server, row=first, column=second, games=10_000).json
    again = ask(server, row=first, column=second, games=10_000).json
    assert server.get(f"/api/matches/{begun['id']}")["state"] == "stopped"
    assert server.ask(f"/api/matches/{again['id']}/stop", "POST", body={}).json["state"] == "stopped"


@pytest.mark.slow
def test_whoever_may_control_lets_the_games_count(serve: Serve, runs: Path) -> None:
    server = serve(runs, control=True)
    server.enter(server.site.sessions.control_token)
    first, second, *_ = members(server)
    told = over(server, ask(server, row=first, column=second, record=True).json["id"])
    assert (told["state"], told["report"]["recorded"]) == ("done", 4), told
    assert (runs / "study" / "kuhn" / "recorded.sqlite").is_file()
