"""The program that makes a loader's data: it lives as long as the run, fails in the open, and leaves nobody behind."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psutil import Process

from ludus.config import parse_config
from ludus.errors import WorkerError
from ludus.orchestrator.workers import Workers
from ludus.runtime import Supervisor
from ludus.sources.producer import NAME, Producer

DEADLINE_S = 60.0
RUNS_ON = "import os, time; open({at!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
CONFIG = """
name: produced
games: [open_spiel:tic_tac_toe]
topology: split
mode: train
buffer: {{loader: {{kind: csv, command: {command}}}}}
"""


class Context:
    """As much of a run as a program needs."""

    def __init__(self, where: Path, command: list[str]) -> None:
        self.config = parse_config(CONFIG.format(command=command), "run.yaml")
        self.supervisor = Supervisor(where, max_restarts=1)
        self.run = self
        self.path = where
        self.telemetry = self
        self.events: list[str] = []

    def event(self, kind: str, **fields: object) -> None:
        self.events.append(kind)


Start = Callable[..., tuple[Context, Workers]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Context] = []

    def begin(*command: str) -> tuple[Context, Workers]:
        context: Any = Context(tmp_path, list(command))
        started.append(context)
        workers = Workers(context.supervisor)
        Producer(context, workers).start()
        return context, workers

    yield begin
    for context in started:
        context.supervisor.stop(grace_s=0.0)


def serve_until(workers: Workers, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end
        workers.serve(0.05)


def pid_in(file: Path) -> int:
    return int(file.read_text() or 0) if file.exists() else 0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_gone(pid: int) -> bool:
    end = time.monotonic() + DEADLINE_S
    while is_alive(pid) and time.monotonic() < end:
        os.sched_yield()
    return not is_alive(pid)


def test_a_program_gets_the_runs_directory_and_ends_once(start: Start, tmp_path: Path) -> None:
    context, workers = start(sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write('x')", "{run}/made")
    serve_until(workers, lambda: "producer_ended" in context.events)
    assert (tmp_path / "made").read_text() == "x"
    assert context.events == ["producer_ended"]


def test_ludus_is_the_one_that_runs(start: Start, tmp_path: Path) -> None:
    context, workers = start("ludus", "--version")
    serve_until(workers, lambda: bool(context.events))
    assert context.events == ["producer_ended"]
    assert "ludus" in (tmp_path / f"{NAME}.log").read_text()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_program_does_not_outlive_its_run(start: Start, tmp_path: Path, how: str) -> None:
    file = tmp_path / "pid"
    context, workers = start(sys.executable, "-c", RUNS_ON.format(at=str(file)))
    serve_until(workers, lambda: pid_in(file) > 0)
    program = pid_in(file)
    assert is_alive(program)
    if how == "stop":
        context.supervisor.stop(grace_s=0.0)
    else:
        os.kill(Process(program).ppid(), signal.SIGKILL)
    assert is_gone(program)


def test_a_program_that_was_killed_is_started_again(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    context, workers = start(sys.executable, "-c", RUNS_ON.format(at=str(file)))
    serve_until(workers, lambda: pid_in(file) > 0)
    first = pid_in(file)
    os.kill(first, signal.SIGKILL)
    serve_until(workers, lambda: pid_in(file) not in (0, first))
    assert context.events == ["worker_lost"]


def test_a_program_that_fails_again_and_again_ends_the_run_with_its_last_words(start: Start) -> None:
    _, workers = start(sys.executable, "-c", "raise SystemExit('no engine here')")
    with pytest.raises(WorkerError, match=r"(?s)producer exited with code 1; it was lost 2 times.*no engine here"):
        serve_until(workers, lambda: False)


def test_a_program_that_is_not_there_is_named(start: Start) -> None:
    _, workers = start("no-such-program")
    with pytest.raises(WorkerError, match=r"no-such-program cannot be started: No such file or directory"):
        serve_until(workers, lambda: False)
