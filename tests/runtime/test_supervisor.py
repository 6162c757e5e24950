"""Workers die, hang, lie and multiply; the supervisor notices, says what happened, and leaves nobody behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ludus.errors import WorkerError
from ludus.runtime import Arrived, Launcher, Lost, Supervisor, WorkerSpec


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


def poll_until(supervisor: Supervisor, holds: Callable[[], bool], deadline_s: float = 20.0) -> None:
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end
        assert supervisor.poll(0.05) == []


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
    assert [(each.name, each.starts) for each in supervisor.read()] == [("worker-0", 2)]


def test_frames_that_come_again_are_refused_and_told_of(tmp_path: Path, worker_path: None) -> None:
    told: list[tuple[str, dict[str, object]]] = []
    supervisor = Supervisor(tmp_path, max_restarts=0, tell=lambda kind, **fields: told.append((kind, fields)))
    try:
        supervisor.start(spec())
        supervisor.send("worker-0", Command(what="twice"))
        event = next_event(supervisor)
        assert isinstance(event, Arrived)
        assert event.message == Echo(text="once")
        assert echo(supervisor).text == "hello"
        supervisor.dismiss("worker-0")
        assert told == [("refused_late", {"worker": "worker-0", "frames": 1})]
        assert supervisor.dropped == 1
    finally:
        supervisor.stop()


def test_a_lost_worker_that_is_not_needed_is_gone_and_fails_nothing(tmp_path: Path, worker_path: None) -> None:
    supervisor = Supervisor(tmp_path, max_restarts=0)
    try:
        supervisor.start(spec(), is_needed=lambda: False)
        supervisor.send("worker-0", Command(what="segfault"))
        event = next_event(supervisor)
        assert isinstance(event, Lost)
        assert not event.is_replaced
        supervisor.send("worker-0", Command(what="echo"))  # whoever sends may not know yet
        assert supervisor.cpu_s(["worker-0"]) == {}
        assert supervisor.poll(0.0) == []
        assert not supervisor.may_start("worker-0")
    finally:
        supervisor.stop()


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


def test_a_worker_that_never_begins_counts_as_hung_after_the_start_up_grace(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.runtime.signs_of_life.START_GRACE_S", 3.0)
    supervisor.start(spec(stall_s=0.5))
    supervisor.send("worker-0", Command(what="take it and hang"))
    event = next_event(supervisor)
    assert isinstance(event, Lost)
    assert event.reason == "made no progress for 3 s"


@pytest.mark.parametrize("order", ["hang", ""])
def test_a_stopped_worker_is_named_and_then_replaced_within_its_deadline(
    tmp_path: Path,
    make_launcher: Callable[[], Launcher],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    order: str,
) -> None:
    monkeypatch.setattr("ludus.runtime.signs_of_life.SILENT_S", 1.5)
    told: list[tuple[str, str, tuple[str, ...]]] = []
    supervisor = Supervisor(
        tmp_path,
        max_restarts=1,
        tell=lambda kind, **fields: told.append((kind, fields["worker"], supervisor.silent)),
        launcher=make_launcher(),
    )
    supervisor.start(spec("explorer-3", stall_s=3.0))
    pid = echo(supervisor, "explorer-3").pid
    os.kill(pid, signal.SIGSTOP)
    if order:  # busy or idle, a stopped worker is of no use
        supervisor.send("explorer-3", Command(what=order))
    end = time.monotonic() + 20.0
    while not (events := supervisor.poll(0.05)) and time.monotonic() < end:
        assert supervisor.silent == tuple(name for _, name, _ in told)
    assert isinstance(events[0], Lost)
    assert "gave no sign of life for" in events[0].reason
    assert [kind for kind, *_ in told] == ["worker_silent"]
    assert "explorer-3 gives no sign of life" in caplog.text
    assert is_gone_within(pid, 5.0)
    assert echo(supervisor, "explorer-3").pid != pid
    supervisor.stop()


def test_a_worker_that_goes_on_is_named_again_and_kept(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ludus.runtime.signs_of_life.SILENT_S", 1.0)
    supervisor.start(spec())
    pid = echo(supervisor).pid
    os.kill(pid, signal.SIGSTOP)
    poll_until(supervisor, lambda: supervisor.silent == ("worker-0",))
    os.kill(pid, signal.SIGCONT)
    poll_until(supervisor, lambda: supervisor.silent == ())
    assert "worker-0 gives signs of life again" in caplog.text
    assert echo(supervisor).pid == pid


def test_a_worker_that_computes_without_a_word_is_not_silent(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.runtime.signs_of_life.SILENT_S", 1.0)
    supervisor.start(spec())
    supervisor.send("worker-0", Command(what="hold the interpreter"))
    while not (events := supervisor.poll(0.05)):
        assert supervisor.silent == ()
    assert isinstance(events[0], Arrived)


def test_start_up_grace_ends_with_the_first_sign_of_progress(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.runtime.signs_of_life.START_GRACE_S", 3600.0)
    supervisor.start(spec(stall_s=0.5))
    echo(supervisor)
    supervisor.send("worker-0", Command(what="take it and hang"))  # idle before, and it never says that it began
    event = next_event(supervisor)
    assert isinstance(event, Lost)
    assert event.reason == "made no progress for 0.5 s"


def test_nobody_waits_for_how_a_worker_ended(supervisor: Supervisor) -> None:
    supervisor.start(spec())
    pid = echo(supervisor).pid
    supervisor.send("worker-0", Command(what="close and stay"))
    live = supervisor._live["worker-0"]
    process = live.worker.process
    while live.ends_by is None:
        assert supervisor.poll(0.05) == []
    assert supervisor.poll(0.0) == []  # it has closed its connection and lives
    answers: list[int | None] = []
    reader = threading.Thread(target=lambda: answers.append(process.poll()))
    waiter = threading.Thread(target=lambda: answers.append(process.wait(20.0)))
    waiter.start()
    reader.start()
    reader.join(10.0)
    assert answers == [None]
    os.kill(pid, signal.SIGKILL)
    event = next_event(supervisor)
    waiter.join(10.0)
    assert isinstance(event, Lost)
    assert event.reason == "killed by SIGKILL"
    assert answers == [None, -signal.SIGKILL]


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


def test_stop_ends_workers_that_do_not_listen(tmp_path: Path, make_launcher: Callable[[], Launcher]) -> None:
    supervisor = Supervisor(tmp_path, max_restarts=0, launcher=make_launcher())
    supervisor.start(spec())
    pid = echo(supervisor).pid
    supervisor.send("worker-0", Command(what="hang"))
    supervisor.stop(Command(what="stop"), grace_s=0.2)
    assert is_gone_within(pid, 5.0)


PARENT = """
import sys, pathlib
sys.path.insert(0, {here!r})
from scripted_worker import Command, Echo
from ludus.runtime import ForkLauncher, Supervisor, WorkerSpec
logs = pathlib.Path({logs!r})
if {kind!r} == "fork":
    launcher = ForkLauncher()
else:
    from ludus.runtime.ray import Cluster, RayLauncher
    launcher = RayLauncher(None, Cluster(logs / "ray.log"))
supervisor = Supervisor(logs, max_restarts=0, launcher=launcher)
supervisor.start(WorkerSpec(name="w", module="scripted_worker", replies=Echo))
supervisor.send("w", Command(what="echo"), b"x")
while not (events := supervisor.poll(1)):
    pass
supervisor.send("w", Command(what={order!r}))
print(events[0].message.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("order", ["echo", "hang"])
def test_workers_die_with_a_killed_parent(tmp_path: Path, worker_path: None, launcher_kind: str, order: str) -> None:
    here = str(Path(__file__).parent / "worker_modules")
    code = PARENT.format(here=here, logs=str(tmp_path), order=order, kind=launcher_kind)
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_alive(worker)
        others = family_of(parent.pid)
        assert worker in others
    finally:
        parent.kill()
        parent.communicate(timeout=10)
    assert is_gone_within(worker, 10.0)
    end = time.monotonic() + 30.0
    while (left := [pid for pid in others if is_alive(pid)]) and time.monotonic() < end:
        os.sched_yield()
    assert left == []


def family_of(root: int) -> set[int]:
    """All processes below one, whatever sessions they have made for themselves."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    below = {root}
    while found := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= found
    return below - {root}
