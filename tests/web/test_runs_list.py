"""`/api/runs`: what is listed, and that one bad run hides no other."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.web.conftest import Serve


def test_a_run_says_what_it_is_and_how_it_went(serve: Serve, runs: Path) -> None:
    (row,) = serve(runs).get("/api/runs")["rows"]
    shown = {name: row[name] for name in ("id", "folder", "name", "state", "plays", "algorithm", "seed", "steps")}
    assert shown == {
        "id": "study/kuhn",
        "folder": "study",
        "name": "old_split",
        "state": "finished",
        "plays": "open_spiel:kuhn_poker",
        "algorithm": "ppo",
        "seed": 3,
        "steps": 252,
    }
    assert row["result_text"] == "random 75.0%  past 25.0%"


def test_runs_are_filtered_sorted_grouped_and_paged(serve: Serve, runs: Path) -> None:
    for name in ("b", "a"):
        shutil.copytree(runs / "study" / "kuhn", runs / "other" / name)
    server = serve(runs)
    ids = lambda query: [row["id"] for row in server.get(f"/api/runs?{query}")["rows"]]  # noqa: E731
    assert ids("sort=id&order=up") == ["other/a", "other/b", "study/kuhn"]
    assert ids("sort=id") == ["study/kuhn", "other/b", "other/a"]
    assert ids("filter=other+-other/b") == ["other/a"]
    assert ids("filter=other/a+-") == ["other/a"], "a minus alone is half of a word"
    assert ids("sort=id&order=up&offset=1&limit=1") == ["other/b"]
    assert server.get("/api/runs?label=folder")["groups"] == {"other": 2, "study": 1}
    assert server.ask("/api/runs?sort=secret").status == 400
    assert server.ask("/api/runs?offset=x").status == 400


def test_a_run_that_cannot_be_read_hides_no_other(serve: Serve, runs: Path) -> None:
    broken = runs / "broken"
    shutil.copytree(runs / "study" / "kuhn", broken)
    (broken / "config.yaml").write_text("name: [")
    rows = {row["id"]: row for row in serve(runs).get("/api/runs")["rows"]}
    assert rows["broken"]["state"] == "unreadable"
    assert rows["broken"]["error"]
    assert rows["study/kuhn"]["state"] == "finished"


def test_one_run_can_be_the_folder(serve: Serve, runs: Path) -> None:
    shutil.copytree(runs / "study" / "kuhn", runs / "study" / "secret")
    server = serve(runs / "study" / "kuhn")
    assert [row["id"] for row in server.get("/api/runs")["rows"]] == ["kuhn"]


def test_a_folder_whose_name_is_no_text_is_named(serve: Serve, runs: Path) -> None:
    (runs / "study" / "kuhn").rename(os.fsdecode(os.fsencode(runs) + b"/bad\xff"))
    (row,) = serve(runs).get("/api/runs")["rows"]
    assert (row["id"], row["state"]) == ("bad\ufffd", "unreadable")
    assert "rename it" in row["error"]
