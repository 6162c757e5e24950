"""A run that is stopped, killed and bereft of its workers ends like one that nobody disturbed; a full disk loses nothing.

All of it happens to one run, one thing after the other, because each start of a run takes seconds. At last it has more
workers than before, which changes nothing either.
"""

import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import (
    TRAINER,
    count_events,
    descendants,
    describe,
    finish,
    is_gone,
    kill,
    kill_worker,
    start,
    wait_for_event,
    wait_until,
)

from ludus import SingleRun, parse_config
from ludus.errors import RunLocked
from ludus.storage.jsonl import read_jsonl

TEXT = """
name: split
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 16}
policy: {network: {kind: mlp, hidden: [8]}}
experience: {final: [{kind: role_advantage}]}
train: {steps: 6000, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}], snapshot_every: 1000}
evaluate: {against: [random], games: 4, every: 1000, final_games: 4}
telemetry: {tensorboard: false, every_s: 0}
"""


def write_config(folder: Path, *, steps: int = 6000) -> Path:
    path = folder / "run.yaml"
    path.write_text(TEXT.replace("steps: 6000", f"steps: {steps}"))
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run when nobody interferes."""
    folder = tmp_path_factory.mktemp("whole")
    assert SingleRun(parse_config(TEXT, "run.yaml"), folder / "run").run_to_end().stage == "done"
    return folder / "run"


@pytest.fixture(scope="module")
def whole(undisturbed: Path) -> dict[str, Any]:
    """What becomes of the config when nobody interferes."""
    return describe(undisturbed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What was seen while a run was disturbed in every way."""

    run: Path
    refusals: list[str]
    """What those were told who wanted to run it while it ran."""
    pid: int
    """Of the process that they met."""
    stopped: list[tuple[int, int]]
    """After each signal: the exit code, and how often the run has said that it ended."""
    outlived: list[int]
    """Workers that were still there when their run had been killed."""
    end: tuple[int, str]


@pytest.fixture(scope="module")
def battered(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("battered")
    path, run = write_config(folder), folder / "run"
    stopped: list[tuple[int, int]] = []

    process = playing(path, run)
    pid, refusals = process.pid, refused(process, path, run)
    stopped += [stop(process, run, signal.SIGINT)]
    stopped += [stop(playing(path, run), run, signal.SIGTERM)]

    process = playing(path, run)
    workers = descendants(process.pid)
    assert len(workers) >= 2
    kill(process)
    wait_until(lambda: all(is_gone(worker) for worker in workers), 5.0)
    outlived = [worker for worker in workers if not is_gone(worker)]

    process = playing(path, run, "explore.workers=2")
    for worker in descendants(process.pid):
        os.kill(worker, signal.SIGKILL)
    return Story(run=run, refusals=refusals, pid=pid, stopped=stopped, outlived=outlived, end=finish(process))


def playing(path: Path, run: Path, *overrides: str) -> "subprocess.Popen[bytes]":
    """The run, started, two updates and a random moment later."""
    process = start(path, run, *overrides)
    assert wait_for_event(process, run, "published", count_events(run, "published") + 2), finish(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(random.Random(count_events(run, "started")).uniform(0.0, 0.1))
    return process


def refused(process: "subprocess.Popen[bytes]", path: Path, run: Path) -> list[str]:
    """What others are told who want to run it now: another process, and this one. Meanwhile it holds its breath."""
    process.send_signal(signal.SIGSTOP)
    code, error = finish(start(path, run))
    assert code == 1
    with pytest.raises(RunLocked) as locked:
        SingleRun(parse_config(path.read_text(), "run.yaml"), run).run_to_end()
    process.send_signal(signal.SIGCONT)
    return [error, str(locked.value)]


def stop(process: "subprocess.Popen[bytes]", run: Path, sent: signal.Signals) -> tuple[int, int]:
    process.send_signal(sent)
    code, _ = finish(process)
    return code, count_events(run, "ended")


def evaluations(run: Path) -> list[dict[str, Any]]:
    lines = [line for line in read_jsonl(run / "metrics.jsonl") if "evaluate/number" in line]
    return [{name: value for name, value in line.items() if name.startswith(("evaluate/", "step"))} for line in lines]


def test_every_evaluation_is_reported_once_and_as_in_an_undisturbed_run(battered: Story, undisturbed: Path) -> None:
    reported = evaluations(battered.run)
    assert [line["evaluate/number"] for line in reported] == list(range(len(reported)))
    assert reported == evaluations(undisturbed)


def test_a_second_run_on_a_live_run_is_refused_with_the_pid(battered: Story) -> None:
    assert all(str(battered.pid) in refusal for refusal in battered.refusals)


def test_one_signal_saves_and_stops(battered: Story) -> None:
    assert battered.stopped == [(130, 1), (130, 2)]


def test_no_worker_outlives_a_killed_run(battered: Story) -> None:
    assert battered.outlived == []


def test_workers_that_are_killed_are_replaced(battered: Story) -> None:
    code, error = battered.end
    assert code == 0, error
    assert count_events(battered.run, "worker_lost") >= 3


def test_after_all_that_the_run_is_the_one_that_nobody_disturbed(battered: Story, whole: dict[str, Any]) -> None:
    assert describe(battered.run) == whole


def test_nothing_needs_cleaning_afterwards(battered: Story) -> None:
    assert not list(battered.run.rglob(".tmp-*"))
    assert not list(battered.run.rglob(".stage-*"))


def test_a_full_disk_stops_with_the_numbers_and_goes_on_when_there_is_space(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        pytest.skip("needs root and a mountable tmpfs")
    try:
        path = write_config(tmp_path)
        code, error = finish(start(path, disk / "run"))
        assert code == 1
        assert "MB free in" in error
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        code, error = finish(start(path, disk / "run"))
        assert code == 0, error
        assert describe(disk / "run") == whole
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.usefixtures("compile_anew")
def test_a_trainer_that_is_killed_again_and_again_changes_nothing(tmp_path: Path) -> None:
    path = write_config(tmp_path, steps=12000)
    path.write_text(path.read_text() + "runtime: {max_restarts: 1000}\n")
    assert finish(start(path, tmp_path / "whole"))[0] == 0
    process = start(path, tmp_path / "run")
    for number in range(8):
        if not wait_for_event(process, tmp_path / "run", "published", 2 + number * 5):
            break
        kill_worker(process, TRAINER)
    code, error = finish(process)
    assert code == 0, error
    assert count_events(tmp_path / "run", "worker_lost") >= 5
    assert describe(tmp_path / "run") == describe(tmp_path / "whole")
