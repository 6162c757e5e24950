"""`ludus runs` and `ludus compare`: what the files of runs say about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ludus.cli.app import COMMANDS, app
from ludus.reports.run_facts import Clock, read_run_facts, wall_seconds
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import BegunStage, RunDirectory, StagedDirectory

CONFIG = "name: NAME\nseed: SEED\ngames: [open_spiel:tic_tac_toe]\ntrain: {steps: 1000}\n"
BEGAN = 1_700_000_000.0


def make(
    path: Path, *, seed: int = 0, events: list[tuple[float, str, dict[str, Any]]], scores: dict[int, float]
) -> Path:
    run = RunDirectory(path)
    run.create(CONFIG.replace("NAME", path.name).replace("SEED", str(seed)))
    lines = [{"time": BEGAN + at, "event": kind, **fields} for at, kind, fields in events]
    run.events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    measured = [
        {"time": BEGAN + step / 100, "step": step, "evaluate/random/score": score} for step, score in scores.items()
    ]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in measured))
    return path


def ended(at: float, *, stopped: bool = False) -> tuple[float, str, dict[str, Any]]:
    return (at, "ended", {"stopped": stopped})


def ludus(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make(tmp_path / "first", events=[(0, "opened", {}), (1, "started", {}), ended(60)], scores={500: 0.5, 1000: 0.75})
    make(
        tmp_path / "study" / "second",
        seed=7,
        events=[(100, "opened", {}), (101, "started", {}), ended(130, stopped=True), (500, "opened", {})],
        scores={500: 0.625},
    )
    make(tmp_path / "third", events=[(200, "opened", {}), (290, "failed", {"error": "TrainError: boom"})], scores={})
    return tmp_path


def test_runs_are_listed_with_state_date_wall_time_and_last_result(folder: Path) -> None:
    head, *rows = ludus("runs", folder).splitlines()
    assert head.split() == ["run", "state", "started", "wall", "time", "progress", "last", "result"]
    first, second, third = rows
    assert first.split()[:2] == ["first", "finished"]
    assert "2023-11-14" in first or "2023-11-15" in first
    assert "1:00" in first
    assert "random 75.0%" in first
    assert second.split()[:2] == ["study/second", "killed"]
    assert "0:30" in second
    assert "random 62.5%" in second
    assert third.split()[:2] == ["third", "failed"]
    assert "TrainError: boom" in third


def test_a_run_that_cannot_be_read_hides_no_other(folder: Path) -> None:
    (folder / "first" / "config.yaml").write_text("name: [")
    said = ludus("runs", folder)
    assert f"{folder / 'first'}: cannot be read:" in said
    assert "study/second" in said
    found = {row["path"]: row for row in json.loads(ludus("runs", folder, "--json"))["runs"]}
    assert "error" in found[str(folder / "first")]
    assert found[str(folder / "study" / "second")]["wall_s"] == pytest.approx(30.0)


def test_a_live_run_is_running(folder: Path) -> None:
    with RunLock(folder / "first"):
        facts = read_run_facts(folder / "first")
    assert facts.state == "running"
    assert facts.pid is not None


def test_a_run_in_stages_is_one_run(tmp_path: Path) -> None:
    staged = StagedDirectory(tmp_path / "whole")
    staged.prepare()
    around = CONFIG.replace("NAME", "whole").replace("SEED", "3")
    staged.config.write_text(around + "stages: [{name: a}, {name: b}]\n")
    staged.write([BegunStage(folder="1_a", is_done=True), BegunStage(folder="2_b")])
    make(staged.path / "1_a", events=[(0, "opened", {}), ended(10)], scores={500: 0.5})
    make(staged.path / "2_b", events=[(20, "opened", {}), ended(25, stopped=True)], scores={})
    facts = read_run_facts(staged.path)
    assert (facts.name, facts.state, facts.part, facts.wall_s) == ("whole", "stopped", "2/2 b", pytest.approx(15.0))
    assert wall_seconds(staged.path) == pytest.approx(15.0)
    assert "whole  stopped (2/2 b)" in ludus("runs", tmp_path)


def test_wall_time_of_runs_of_before_is_that_of_their_starts() -> None:
    clock = Clock()
    for at, kind in (
        (0, "published"),
        (1, "started"),
        (9, "published"),
        (100, "started"),
        (104, "ended"),
        (105, "sinks"),
    ):
        clock.see({"time": float(at), "event": kind})
    clock.stop()
    assert (clock.starts, clock.wall_s) == (2, 13.0)


def test_compare_shows_the_keys_and_results_that_differ(folder: Path) -> None:
    first, second = folder / "first", folder / "study" / "second"
    rows = {line.split("  ")[0].strip(): line for line in ludus("compare", first, second).splitlines()}
    assert rows["seed"].split() == ["seed", "0", "7"]
    assert "train.steps" not in rows
    assert rows["evaluate/random/score"].split()[-2:] == ["75.0%", "62.5%"]
    assert rows["evaluate/random/score at step 500"].split()[-2:] == ["50.0%", "62.5%"]
    found = json.loads(ludus("compare", first, second, "--json"))
    assert found["config"]["seed"] == [0, 7]
    assert found["results"]["evaluate/random/score"] == [0.75, 0.625]


@pytest.mark.parametrize("group", [(), ("model",), ("debug",), ("chess",), ("chess", "chunks")])
def test_no_summary_of_a_command_is_cut(group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = ludus(*group, "--help")
    assert "..." not in said.split("Commands:")[1]
    assert all(command in said for command in COMMANDS) or group


def test_where_a_game_pays_more_than_win_or_lose_the_result_is_the_return(tmp_path: Path) -> None:
    run = make(tmp_path / "kuhn", events=[(0, "opened", {}), ended(9)], scores={})
    paid = {"evaluate/random/score": 0.4, "evaluate/random/return": 0.52, "evaluate/random/by_return": 1.0}
    RunDirectory(run).metrics.write_text(json.dumps({"time": BEGAN, "step": 5, **paid}) + "\n")
    assert dict(read_run_facts(run).result) == {"evaluate/random/return": 0.52}
    assert "random 0.52" in ludus("runs", tmp_path)
    assert "measured   random 0.52\n" in ludus("status", run)
