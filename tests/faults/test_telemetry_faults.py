"""F25: where metrics go is dead, unreachable, hung or full. The run goes on, losses are counted, the local file is
complete, and what was not uploaded can be uploaded later.

That step time does not change is measured by `ludus bench telemetry`; here nothing may wait at all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "telemetry"))

from wandb_server import serving

from ludus.config import WandbConfig
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import Sink, Telemetry, TensorBoardSink, WandbSink, sinks
from ludus.telemetry.wandb_sink import run_id

CLOSE_S = 15.0
"""No close takes longer, on a busy machine."""


class Tracked:
    """A run's telemetry with one sink, and a count of what was logged."""

    def __init__(self, folder: Path, make_sink: Callable[[RunDirectory], Sink]) -> None:
        self.run = RunDirectory(folder / "run")
        self.run.create("name: x\n")
        self.run.new_attempt()
        self.telemetry = Telemetry(self.run, "x")
        self.sink = make_sink(self.run)
        self.telemetry.attach(self.sink)
        self.logged = 0

    def log(self, count: int) -> None:
        for _ in range(count):
            self.telemetry.metrics(self.logged, {"train/loss": 1.0 / (self.logged + 1)})
            self.logged += 1

    def close(self) -> float:
        started = time.monotonic()
        self.telemetry.close()
        return time.monotonic() - started

    @property
    def status(self) -> Any:
        return self.telemetry.sinks_status()[0]

    @property
    def local_steps(self) -> list[int]:
        return [line["step"] for line in read_jsonl(self.run.metrics)]


def wandb_sink(mode: Any) -> Callable[[RunDirectory], WandbSink]:
    return lambda run: WandbSink(run, WandbConfig(mode=mode), run_name="x", values={})


def wait_until(holds: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not (value := holds()):
        assert time.monotonic() < deadline, "it never happened"
        pause.wait(0.02)
    return value


def service_of(tracked: Tracked) -> psutil.Process | None:
    """wandb's own process, as soon as there is one that has logged something."""
    sink = tracked.sink
    assert isinstance(sink, WandbSink)
    pid = sink.pid
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children() if pid is not None else []:
            if child.name() == "wandb-core" and list(tracked.run.wandb.glob("*run-*/*.wandb")):
                return child
    return None


def uploaded(monkeypatch: pytest.MonkeyPatch, *runs: Tracked, one_by_one: bool = False) -> list[list[int]]:
    """The steps that arrive when wandb's own command uploads what is on disk to a server that works."""
    with serving("answers") as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        folders = [folder for tracked in runs for folder in sorted(tracked.run.wandb.glob("*run-*"))]
        # In one command, a file that was killed before its first flush keeps wandb from those behind it.
        for some in [[folder] for folder in folders] if one_by_one else [folders]:
            command = [sys.executable, "-m", "wandb", "sync", "--include-online", *some]
            subprocess.run(command, check=True, capture_output=True, cwd=runs[0].run.path)
        return [[line["step"] for line in server.history(run_id(tracked.run))] for tracked in runs]


def test_a_server_that_cannot_be_had_costs_nothing_and_the_run_is_uploaded_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with serving("fails") as failing, serving("hangs") as hanging:
        places = {
            "refuses": "http://127.0.0.1:9",
            "answers 500": failing.url,
            "hangs": hanging.url,
            "has no address": "http://nowhere.invalid",
        }
        runs = {}
        for name, url in places.items():
            monkeypatch.setenv("WANDB_BASE_URL", url)
            runs[name] = tracked = Tracked(tmp_path / name.replace(" ", "_"), wandb_sink("online"))
            started = time.monotonic()
            tracked.log(50)
            assert time.monotonic() - started < 2.0
            wait_until(lambda sink=tracked.sink: sink.pid is not None)  # it has the address now
        assert failing.was_asked.wait(60)
        assert hanging.was_asked.wait(60)
        took: list[float] = []
        closing = [threading.Thread(target=lambda t=t: took.append(t.close())) for t in runs.values()]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
    assert len(took) == 4
    assert max(took) < CLOSE_S
    for name, tracked in runs.items():
        assert (name, tracked.local_steps) == (name, list(range(50)))
        assert (name, tracked.status.dropped, tracked.status.error) == (name, 0, "")
    assert uploaded(monkeypatch, *runs.values()) == [list(range(50))] * 4


def test_a_server_that_goes_away_costs_the_end_of_a_run_seconds_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with serving("answers") as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        tracked = Tracked(tmp_path, wandb_sink("online"))
        tracked.log(10)
        wait_until(lambda: server.upserts)
        server.behaviour = "fails"
        tracked.log(10)
        assert tracked.close() < CLOSE_S
    assert "wandb sync --include-online" in tracked.status.error
    assert tracked.status.dropped == 0
    assert tracked.local_steps == list(range(20))
    assert uploaded(monkeypatch, tracked) == [list(range(20))]


def test_wandb_killed_in_mid_run_comes_back_as_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sinks, "FIRST_PAUSE_S", 0.01)
    tracked = Tracked(tmp_path, wandb_sink("offline"))
    for kill in ("service", "child"):
        tracked.log(10)
        service = wait_until(lambda: service_of(tracked))
        (service if kill == "service" else service.parent()).kill()
        failures = tracked.status.dropped
        while tracked.status.dropped == failures:  # until it is noticed
            tracked.log(1)
            threading.Event().wait(0.02)
    while tracked.status.error:  # until it is back
        tracked.log(1)
        threading.Event().wait(0.02)
    wait_until(lambda: service_of(tracked))
    lost, resumed_at = tracked.status.dropped, tracked.logged
    tracked.log(10)
    assert tracked.close() < CLOSE_S
    assert tracked.status.error == ""
    assert tracked.status.dropped == lost
    assert tracked.local_steps == list(range(tracked.logged))
    assert any("telemetry/dropped" in line for line in read_jsonl(tracked.run.metrics))
    assert uploaded(monkeypatch, tracked, one_by_one=True)[0][-10:] == list(range(resumed_at, resumed_at + 10))
    assert "works again" in caplog.text


@pytest.mark.slow
def test_hung_wandb_neither_holds_up_the_end_nor_outlives_it(tmp_path: Path) -> None:
    tracked = Tracked(tmp_path, wandb_sink("offline"))
    tracked.log(10)
    service = wait_until(lambda: service_of(tracked))
    child = service.parent()
    service.suspend()
    started = time.monotonic()
    tracked.log(3000)
    assert time.monotonic() - started < 5.0
    assert tracked.close() < CLOSE_S
    assert tracked.local_steps == list(range(3010))
    assert tracked.status.error
    assert not psutil.pid_exists(child.pid)
    wait_until(lambda: not psutil.pid_exists(service.pid) or service.status() == psutil.STATUS_ZOMBIE)


SENDER = """
import sys
from pathlib import Path
from ludus.config import WandbConfig
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import Telemetry, WandbSink
run = RunDirectory(Path(sys.argv[1]))
run.create("name: x\\n")
telemetry, sink = Telemetry(run, "x"), WandbSink(run, WandbConfig(mode="offline"), run_name="x", values={})
telemetry.attach(sink)
telemetry.metrics(1, {"a": 1.0})
while sink.pid is None:
    pass
print(sink.pid, flush=True)
sys.stdin.read()
"""


def test_wandb_does_not_outlive_a_run_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    with subprocess.Popen(
        [sys.executable, "-c", SENDER, str(tmp_path / "run")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
    ) as trainer:  # fmt: skip
        assert trainer.stdout is not None
        child = psutil.Process(int(trainer.stdout.readline()))
        wait_until(lambda: list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")))
        family = [child, *child.children()]
        trainer.send_signal(signal.SIGKILL)
    for process in family:
        wait_until(lambda process=process: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 30)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "run" / "tensorboard"
    home.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", home], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield home
    finally:
        subprocess.run(["umount", "-l", home], check=True)


def steps_in(event_file: Path) -> list[int]:
    """The steps of the records of an event file, which must all be whole."""
    from tensorboardX.proto.event_pb2 import Event

    data, steps = event_file.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert len(data) >= 16 + length
        steps.append(Event.FromString(data[12 : 12 + length]).step)
        data = data[16 + length :]
    return steps[1:]


def test_a_full_disk_under_tensorboard_costs_lines_until_there_is_space(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(sinks, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(sinks, "MOST_FAILURES", 10_000)
    tracked = Tracked(tmp_path / "elsewhere", lambda run: TensorBoardSink(small_disk))
    while not tracked.status.error:
        tracked.log(20)
        wait_until(lambda: tracked.status.queued == 0 or tracked.status.error)
    assert "No space left" in tracked.status.error
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    tracked.log(50)
    assert tracked.close() < CLOSE_S
    (event_file,) = small_disk.iterdir()
    written = steps_in(event_file)
    assert tracked.status.error == ""
    assert tracked.status.dropped == tracked.logged - len(written) > 0
    assert written[-50:] == list(range(tracked.logged - 50, tracked.logged))
    assert tracked.local_steps == list(range(tracked.logged))
