"""Workers die, hang, lie and multiply; the supervisor notices, says what happened, and leaves nobody behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from ludus.errors import WorkerError
from ludus.runtime import Arrived, Lost, Supervisor, WorkerSpec


class Command(msgspec.Struct, tag="command"):
    what: str
    task: int = 0


class Echo(msgspec.Struct, tag="echo"):
    text: str
    pid: int = 0


def spec(name: str = "worker-0", stall_s: float = 30.0) -> WorkerSpec:
    return WorkerSpec(name=name, module="scripted_worker", replies=Echo, stall_s=stall_s)


def next_event(supervisor: Supervisor, deadline_s: float = 20.0) -> Arrived | Lost:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if events := supervisor.poll(0.05):
            return events[0]
    raise AssertionError("nothing happened")


def echo(supervisor: Supervisor, worker: str = "worker-0") -> Echo:
    supervisor.send(worker, Command(what="echo"), b"hello")
    event = next_event(supervisor)
    assert isinstance(event, Arrived)
    assert isinstance(event.message, Echo)
    return event.message


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def is_gone_within(pid: int, deadline_s: float) -> bool:
    end = time.monotonic() + deadline_s
    while is_alive(pid) and time.monotonic() < end:
        os.sched_yield()
    return not is_alive(pid)


def test_a_worker_answers(supervisor: Supervisor) -> None:
    supervisor.start(spec())
    assert echo(supervisor).text == "hello"


@pytest.mark.parametrize(
    ("order", "reason"),
    [("segfault", "killed by SIGSEGV"), ("exit", "exited with code 0"), ("garbage", "sent garbage")],
)
def test_a_lost_worker_is_reported_with_its_task_and_replaced(supervisor: Supervisor, order: str, reason: str) -> None:
    supervisor.start(spec())
    first = echo(supervisor).pid
    supervisor.send("worker-0", Command(what=order, task=17))
    event = next_event(supervisor)
    assert isinstance(event, Lost)
    assert reason in event.reason
    assert event.task == 17
    assert echo(supervisor).pid != first


def test_the_last_lines_of_a_crashed_worker_are_in_the_report(supervisor: Supervisor) -> None:
    supervisor.start(spec())
    supervisor.send("worker-0", Command(what="segfault"))
    event = next_event(supervisor)
    assert isinstance(event, Lost)
    assert "about to crash" in event.log_tail


def test_a_killed_worker_is_noticed_within_two_seconds(supervisor: Supervisor) -> None:
    supervisor.start(spec())
    pid = echo(supervisor).pid
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    event = next_event(supervisor)
    assert isinstance(event, Lost)
    assert time.monotonic() - started < 2.0


def test_a_hung_worker_is_killed_and_its_stack_is_reported(supervisor: Supervisor) -> None:
    supervisor.start(spec(stall_s=0.5))
    echo(supervisor)
    supervisor.send("worker-0", Command(what="hang", task=5))
    event = next_event(supervisor)
    assert isinstance(event, Lost)
    assert "no progress" in event.reason
    assert event.task == 5
    assert "scripted_worker.py" in event.log_tail
    assert echo(supervisor).text == "hello"


def test_a_worker_that_is_stopped_before_it_begins_counts_as_hung(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.runtime.supervisor.START_GRACE_S", 3.0)
    supervisor.start(spec(stall_s=0.5))
    pid = echo(supervisor).pid
    supervisor.send("worker-0", Command(what="hang"))
    os.kill(pid, signal.SIGSTOP)
    event = next_event(supervisor)
    assert isinstance(event, Lost)
    assert is_gone_within(pid, 5.0)


def test_a_worker_that_took_long_to_begin_has_all_its_time_from_then_on(supervisor: Supervisor) -> None:
    supervisor.start(spec(stall_s=0.8))
    supervisor.send("worker-0", Command(what="load"))
    said = [next_event(supervisor) for _ in range(2)]
    assert [event.message.text for event in said if isinstance(event, Arrived)] == ["ready", "played"]


def test_an_idle_worker_is_never_hung(supervisor: Supervisor) -> None:
    supervisor.start(spec(stall_s=0.2))
    pid = echo(supervisor).pid
    assert supervisor.poll(0.6) == []
    assert supervisor.poll(0.0) == []
    assert echo(supervisor).pid == pid


def test_restarts_are_bounded_and_the_error_names_the_worker(supervisor: Supervisor) -> None:
    supervisor.start(spec("explorer-3"))
    for _ in range(2):
        supervisor.send("explorer-3", Command(what="segfault"))
        next_event(supervisor)
    supervisor.send("explorer-3", Command(what="segfault"))
    with pytest.raises(WorkerError, match=r"explorer-3 killed by SIGSEGV[\s\S]*max_restarts = 2[\s\S]*about to crash"):
        next_event(supervisor)


def test_stop_ends_workers_that_do_not_listen(tmp_path: Path, worker_path: None) -> None:
    supervisor = Supervisor(tmp_path, max_restarts=0)
    supervisor.start(spec())
    pid = echo(supervisor).pid
    supervisor.send("worker-0", Command(what="hang"))
    supervisor.stop(Command(what="stop"), grace_s=0.2)
    assert is_gone_within(pid, 5.0)


PARENT = """
import sys, pathlib
sys.path.insert(0, {here!r})
from scripted_worker import Command, Echo
from ludus.runtime import Supervisor, WorkerSpec
supervisor = Supervisor(pathlib.Path({logs!r}), max_restarts=0)
supervisor.start(WorkerSpec(name="w", module="scripted_worker", replies=Echo))
supervisor.send("w", Command(what="echo"), b"x")
while not (events := supervisor.poll(1)):
    pass
supervisor.send("w", Command(what={order!r}))
print(events[0].message.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("order", ["echo", "hang"])
def test_workers_die_with_a_killed_parent(tmp_path: Path, worker_path: None, order: str) -> None:
    here = str(Path(__file__).parent / "worker_modules")
    code = PARENT.format(here=here, logs=str(tmp_path), order=order)
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_alive(worker)
    finally:
        parent.kill()
        parent.communicate(timeout=10)
    assert is_gone_within(worker, 5.0)
