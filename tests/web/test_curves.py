"""Curves, evaluations, comparisons and the facts of a run over a real socket, also of files that are damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.web.conftest import Serve

RUN = "/api/runs/study%2Fkuhn"


def test_metrics_have_meaning_unit_and_newest_value(serve: Serve, runs: Path) -> None:
    rows = {row["name"]: row for row in serve(runs).get(f"{RUN}/metrics")["rows"]}
    assert rows["train/loss"]["unit"] == "objective"
    assert "weighted sum" in rows["train/loss"]["meaning"]
    assert rows["evaluate/random/score"]["last"] == 0.75


def test_a_curve_comes_over_steps_and_time_and_says_what_is_missing(serve: Serve, runs: Path) -> None:
    server = serve(runs)
    told = server.get(f"{RUN}/series?name=train/loss&name=no/such")
    assert told["series"]["train/loss"]["x"] == [38.0, 175.0]
    assert told["missing"] == ["no/such"]
    seconds = server.get(f"{RUN}/series?name=train/loss&x=time")["series"]["train/loss"]["x"]
    assert seconds[0] == pytest.approx(17.3, abs=0.1)
    assert "no tokens" in server.get(f"{RUN}/series?name=train/loss&x=tokens")["problem"]
    assert "did not record" in server.get(f"{RUN}/series?name=train/loss&x=episodes")["problem"]
    assert server.ask(f"{RUN}/series").status == 400
    assert server.ask(f"{RUN}/series?name=a&from=x").status == 400
    assert server.ask(f"{RUN}/series?" + "&".join(f"name={n}" for n in range(40))).status == 400


def test_evaluations_have_intervals_where_it_is_known_of_how_many_games(serve: Serve, runs: Path) -> None:
    record = {"time": 1.0, "step": 300, "evaluate/random/score": 0.5, "evaluate/random/games": 100}
    with (runs / "study" / "kuhn" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n" + '{"time":1,"step":301,"evaluate/random/score":NaN}\n{"torn')
    rows = {row["name"]: row["points"] for row in serve(runs).get(f"{RUN}/evaluations")["rows"]}
    first, *_, last = rows["evaluate/random/score"]
    assert (first["value"], first["low"]) == (0.75, None)
    assert (last["step"], last["count"]) == (300, 100)
    assert last["low"] == pytest.approx(0.4038, abs=1e-3)
    assert last["high"] == pytest.approx(0.5962, abs=1e-3)


def test_runs_are_compared_by_label_and_by_the_keys_that_differ(serve: Serve, runs: Path) -> None:
    other = runs / "study" / "other"
    shutil.copytree(runs / "study" / "kuhn", other)
    text = (other / "config.yaml").read_text().replace("seed: 3\n", "seed: 4\n", 1)
    (other / "config.yaml").write_text(text)
    server = serve(runs)
    both = "run=study%2Fkuhn&run=study%2Fother"
    told = server.get(f"/api/compare?{both}")
    assert [row["key"] for row in told["config"]] == ["seed"]
    assert told["config"][0]["values"] == [3, 4]
    (group,) = server.get(f"/api/compare/series?{both}&name=train/loss&label=name")["groups"]
    assert (group["label"], group["runs"], group["x"]) == ("old_split", 2, [38.0, 175.0])
    each = server.get(f"/api/compare/series?{both}&name=train/loss")["groups"]
    assert [curve["label"] for curve in each] == ["study/kuhn", "study/other"]
    assert server.get(f"/api/compare/series?{both}&name=no/such")["missing"] == ["study/kuhn", "study/other"]
    assert server.ask("/api/compare").status == 400


def test_what_is_wrong_with_a_run_is_named_and_the_rest_is_shown(serve: Serve, runs: Path) -> None:
    run = runs / "study" / "kuhn"
    (run / "format.json").write_text('{"format": 99, "system": "ludus"}')
    (run / "catalog.sqlite").write_bytes(b"damaged" * 1000)
    server = serve(runs)
    told = server.get(RUN)
    assert any("format 99" in problem for problem in told["problems"])
    assert any("catalog.sqlite" in problem for problem in told["problems"])
    assert told["config"]["name"] == "old_split"
    assert server.get(f"{RUN}/series?name=train/loss")["series"]
    (run / "config.yaml").write_text("]")
    assert server.get(RUN)["config"] is None
    assert server.get(f"{RUN}/series?name=train/loss")["series"]


def test_an_empty_run_and_one_that_is_deleted_are_told(serve: Serve, runs: Path) -> None:
    run = runs / "study" / "kuhn"
    for name in ("metrics.jsonl", "events.jsonl", "catalog.sqlite"):
        (run / name).unlink()
    shutil.rmtree(run / "logs")
    server = serve(runs)
    assert server.get(f"{RUN}/metrics")["rows"] == []
    assert server.get(f"{RUN}/evaluations")["rows"] == []
    assert server.get(f"{RUN}/events")["total"] == 0
    assert server.get(f"{RUN}/log")["workers"] == []
    shutil.rmtree(run)
    for path in (RUN, f"{RUN}/metrics", f"{RUN}/events", "/api/news?run=study%2Fkuhn"):
        answer = server.ask(path)
        assert answer.status == 404
        assert "no run" in answer.json["error"]


def test_files_of_a_run_that_lead_elsewhere_are_refused(serve: Serve, runs: Path, tmp_path: Path) -> None:
    run, secret = runs / "study" / "kuhn", tmp_path / "secret.log"
    secret.write_text("do-not-tell\n")
    (run / "logs" / "attempt_1" / "leak.log").symlink_to(secret)
    server = serve(runs)
    assert "leak" not in server.get(f"{RUN}/log")["workers"]
    assert server.ask(f"{RUN}/log?worker=leak").status == 404
    assert server.ask(f"{RUN}/log?worker=..%2F..%2Fconfig").status == 404
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").symlink_to(secret)
    assert server.ask(f"{RUN}/events").status == 403


def test_hostile_text_is_data(serve: Serve, runs: Path) -> None:
    hostile = "<script>alert(1)</script>\u202e\u0000"
    lines = [{"time": 1.0, "event": hostile, "run": "x", "text": "a" * 1_000_000}, {"time": 2.0, "event": "b"}]
    with (runs / "study" / "kuhn" / "events.jsonl").open("ab") as file:
        file.writelines(json.dumps(line).encode() + b"\n" for line in lines)
        file.write(b'{"time":3,"event":"\\ud800"}\n\xff\xfe\n')
    answer = serve(runs).ask(f"{RUN}/events?limit=3")
    assert answer.headers["content-type"].startswith("application/json")
    newest, _, third = answer.json["rows"]
    assert newest["event"] == "\ufffd"
    assert third["event"] == hostile
