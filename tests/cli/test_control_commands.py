"""`ludus status`, `pause`, `resume`, `checkpoint` and `stop` on runs that are live, over, starting and copied."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludus import parse_config
from ludus.cli.app import main
from ludus.daemon.launch import hosted
from ludus.runs.staged import make_run
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory

Ludus = Callable[..., tuple[int, str, str]]
LONG = """
name: long
games: [open_spiel:leduc_poker]
population: {stop: {nash_conv: null, generations: 100000}}
telemetry: {tensorboard: false}
"""


@pytest.fixture
def ludus(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ludus:
    def call(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ludus", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return call


def test_a_run_is_paused_resumed_saved_and_stopped_from_elsewhere(tmp_path: Path, ludus: Ludus) -> None:
    run = tmp_path / "run"
    loop = make_run(parse_config(LONG, "long.yaml"), run)
    with hosted(loop):
        loop.start()  # its socket is not open yet: the first command waits for it
        while RunLock.holder(run) is None:
            assert not loop.status().is_over
        code, said, _ = ludus("pause", run)
        assert code == 0
        assert "state      paused" in said
        paused = json.loads(ludus("status", run, "--json")[1])
        assert paused["stage"] == "PAUSED"
        assert paused["steps"] == json.loads(ludus("status", run, "--json")[1])["steps"]
        code, said, _ = ludus("checkpoint", run)
        assert code == 0
        assert Path(said.rsplit(": ", 1)[1].strip()).is_dir()
        assert "state      training" in ludus("resume", run)[1]
        code, said, _ = ludus("stop", run)
        assert code == 0
        assert "state      stopped" in said
    assert loop.wait().stage == "stopped"
    assert not RunDirectory(run).control.exists()


def test_a_run_that_is_over_says_so_and_how_to_go_on(tmp_path: Path, ludus: Ludus) -> None:
    short = LONG.replace("leduc_poker", "kuhn_poker").replace("100000", "3")
    make_run(parse_config(short, "short.yaml"), tmp_path / "run").run_to_end()
    code, said, _ = ludus("status", tmp_path / "run")
    assert code == 0
    assert "state      done, finished" in said
    assert "progress   3 of 3 generations (100%)" in said
    for command in ("pause", "checkpoint", "stop"):
        assert ludus(command, tmp_path / "run")[::2] == (1, f"ludus: no process runs {tmp_path / 'run'}\n")
    code, _, said = ludus("resume", tmp_path / "run")
    assert code == 1
    assert f"it goes on with: ludus run {tmp_path / 'run' / 'config.yaml'} --run-dir {tmp_path / 'run'}" in said
    code, _, said = ludus("stop", tmp_path)
    assert code == 2
    assert "is not a run directory" in said


def test_the_copy_of_a_live_run_is_nobodys(tmp_path: Path, ludus: Ludus) -> None:
    RunDirectory(tmp_path / "run").create(LONG)
    with RunLock(tmp_path / "run"):
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        assert RunLock.holder(tmp_path / "run") is not None
        assert RunLock.holder(tmp_path / "copy") is None
        assert "no process runs" in ludus("stop", tmp_path / "copy")[2]


def test_a_process_that_cannot_be_reached_is_named(
    tmp_path: Path, ludus: Ludus, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunDirectory(tmp_path / "run").create(LONG)
    monkeypatch.setattr("ludus.daemon.asking.REACH_S", 0.0)
    with RunLock(tmp_path / "run"):
        code, _, said = ludus("pause", tmp_path / "run")
    assert code == 1
    assert "but cannot be reached" in said


def test_a_stop_that_ends_the_process_before_it_answers_has_stopped_it(tmp_path: Path, ludus: Ludus) -> None:
    run = tmp_path / "run"
    loop = make_run(parse_config(LONG, "long.yaml"), run)
    done = threading.Event()

    def host() -> None:
        with hosted(loop):
            loop.run_to_end()
        done.set()

    threading.Thread(target=host, daemon=True).start()
    end = time.monotonic() + 60
    while RunLock.holder(run) is None:
        assert time.monotonic() < end
    code, _, said = ludus("stop", run)
    assert code == 0, said
    assert done.wait(60)
