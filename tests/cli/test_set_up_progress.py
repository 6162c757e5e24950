"""What `ludus run` says before it trains, of a run that is stopped, and of one that fails."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from ludus import parse_config
from ludus.cli.progress import PlainLines, SetUp
from ludus.config import build_config, resolve
from ludus.daemon.launch import hosted
from ludus.runs.driver import Activity, Controls, Status
from ludus.runs.staged import AnyRun, make_run

WARM = {
    "name": "x",
    "games": ["open_spiel:tic_tac_toe"],
    "policy": {"model": {"path": "ludus/tiny"}},
    "warm_start": {"games": 200},
}


def status_of(stage: str, **metrics: float) -> Status:
    found = {f"warm_start/{name}": value for name, value in metrics.items()}
    return Status(stage=cast(Activity, stage), run="x", run_dir="runs/x", total_steps=9, metrics=found)


def test_a_warm_start_says_what_it_does_how_long_it_took_and_how_long_it_takes() -> None:
    now = [0.0]
    set_up = SetUp(resolve(build_config(WARM)), clock=lambda: now[0])
    now[0] = 4.0
    assert set_up.words(status_of("starting")) == "opening workers and weights, 4 s so far"
    assert set_up.took(status_of("warming up")) == "starting took 4 s"
    now[0] = 24.0
    assert (
        set_up.words(status_of("warming up", games=50))
        == "warm start: 50 of 200 games played to learn from, 20 s so far"
    )
    learnt = status_of("warming up", games=200, progress=0.1, loss=1.5)
    assert set_up.words(learnt) == "warm start: 10% of the games learnt from, loss 1.500, 20 s so far"
    now[0] = 44.0
    later = status_of("warming up", games=200, progress=0.3, loss=1.25)
    assert set_up.words(later).endswith("30% of the games learnt from, loss 1.250, 40 s so far, about 1 min 10 s left")
    assert set_up.took(later) == ""
    assert set_up.took(status_of("training")) == "warming up took 40 s"
    assert set_up.words(status_of("training")) == ""


def test_lines_of_a_pipe_have_it_too() -> None:
    run: Any = type("Run", (), {"config": resolve(build_config(WARM))})()
    console = Console(file=io.StringIO())
    PlainLines(console, cast(AnyRun, run)).show(status_of("warming up", games=7))
    assert "warm start: 7 of 200 games played to learn from" in cast(io.StringIO, console.file).getvalue()


def test_a_stop_shows_at_once_while_the_last_update_goes_on() -> None:
    controls = Controls()
    controls.enter("training")
    controls.ask(stopping=True)
    assert (controls.activity, controls.shown) == ("training", "stopping")
    controls.enter("stopped")
    assert controls.shown == "stopped"


def test_what_ends_a_run_is_printed_once(tmp_path: Path) -> None:
    config = tmp_path / "kuhn.yaml"
    config.write_text("name: k\ngames: [open_spiel:kuhn_poker]\npopulation: {stop: {generations: 2}}\n")
    run = tmp_path / "run"
    make_run(parse_config(config.read_text(), "kuhn.yaml"), run).run_to_end()
    for manifest in run.glob("checkpoints/*/manifest.json"):
        manifest.write_text("x")
    command = [sys.executable, "-m", "ludus.cli.app", "run", str(config), "--run-dir", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("is usable; not starting over") == 1
    assert done.stderr.startswith("no checkpoint in")


def test_a_daemon_still_logs_what_ends_a_run(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    loop = make_run(parse_config("name: k\ngames: [open_spiel:kuhn_poker]\npopulation: {}\n", "k.yaml"), tmp_path / "r")
    with caplog.at_level(logging.ERROR), hosted(loop) as service:
        loop._error = ValueError("boom")
        loop.controls.enter("failed")
        service._tell_of_failure()
        assert not caplog.records
        service._has_opener, service._told_failure = True, None
        service._tell_of_failure()
    assert "the run failed: ValueError: boom" in caplog.text
