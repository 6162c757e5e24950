"""Workers are forked from one process that has imported what they need, and are otherwise as if started alone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludus.config import RunConfig
from ludus.orchestrator.workers import worker_imports
from ludus.runtime import Arrived, Lost, Supervisor, WorkerSpec


class Command(msgspec.Struct, tag="command"):
    what: str
    task: int = 0


class Echo(msgspec.Struct, tag="echo"):
    text: str
    pid: int = 0


@pytest.fixture
def supervisor(tmp_path: Path, worker_path: None) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path, max_restarts=2)
    yield made
    made.stop()


def start(supervisor: Supervisor, name: str, threads: int = 1, imports: tuple[str, ...] = ()) -> None:
    supervisor.start(
        WorkerSpec(name=name, module="scripted_worker", replies=Echo, threads=threads, stall_s=30.0, imports=imports)
    )


def next_event(supervisor: Supervisor) -> Arrived | Lost:
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        if events := supervisor.poll(0.05):
            return events[0]
    raise AssertionError("nothing happened")


def describe(supervisor: Supervisor, name: str) -> dict[str, Any]:
    supervisor.send(name, Command(what="describe"))
    event = next_event(supervisor)
    assert isinstance(event, Arrived), event
    assert isinstance(event.message, Echo)
    said: dict[str, Any] = json.loads(event.message.text)
    return said


def test_workers_share_a_server_and_nothing_else(supervisor: Supervisor) -> None:
    start(supervisor, "first")
    start(supervisor, "second")

    first, second = describe(supervisor, "first"), describe(supervisor, "second")

    assert first["server"] == second["server"] != os.getpid()
    assert [first["group"], second["group"]] == [supervisor.process("first").pid, supervisor.process("second").pid]
    assert first["random"] != second["random"]
    # Standard streams, connection, pulse (twice: it is mapped) and life pipe: nothing of the server, nothing of the other worker.
    for worker in (first, second):
        assert sorted(worker["descriptors"])[-2:] == ["pipe", "socket"]
        assert len(worker["descriptors"]) == 7


def test_a_worker_has_the_folder_and_environment_of_the_moment_and_its_own_threads(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(supervisor, "first")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOTE", "later")
    start(supervisor, "second", threads=3)

    first, second = describe(supervisor, "first"), describe(supervisor, "second")

    assert first["server"] == second["server"]
    assert (first["note"], first["threads"]) == (None, ["1", "1"])
    assert (second["note"], second["threads"]) == ("later", ["3", "3"])
    assert second["directory"] == str(tmp_path)


def test_what_libraries_read_on_import_is_never_another_runs(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(supervisor, "first")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    start(supervisor, "second")

    assert describe(supervisor, "first")["server"] != describe(supervisor, "second")["server"]


def test_ps_shows_what_a_worker_is(supervisor: Supervisor) -> None:
    start(supervisor, "first")
    describe(supervisor, "first")

    command = Path(f"/proc/{supervisor.process('first').pid}/cmdline").read_bytes().split(b"\0")

    assert command[:4] == [sys.executable.encode(), b"-P", b"-m", b"scripted_worker"]


def test_workers_die_with_their_server_and_are_replaced_from_a_new_one(supervisor: Supervisor) -> None:
    start(supervisor, "first")
    server = describe(supervisor, "first")["server"]

    os.kill(server, signal.SIGKILL)
    event = next_event(supervisor)

    assert isinstance(event, Lost)
    assert event.reason == "killed by SIGKILL"
    assert describe(supervisor, "first")["server"] != server


def test_a_worker_still_to_be_forked_can_be_stopped_at_once(tmp_path: Path, worker_path: None) -> None:
    supervisor = Supervisor(tmp_path, max_restarts=0)
    start(supervisor, "slow", imports=("takes_a_second",))
    started = time.monotonic()

    supervisor.stop()

    assert time.monotonic() - started < 0.5


def test_files_in_the_current_folder_are_no_modules_of_workers(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "json", "numpy", "colorsys", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a hostile folder')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHON_NONE", "so that the server is a new one")

    start(supervisor, "first")

    assert describe(supervisor, "first")["directory"] == str(tmp_path)


def test_a_library_that_starts_a_thread_makes_workers_programs_of_their_own(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_NONE", "so that the thread is in a server of its own")

    start(supervisor, "first", imports=("starts_a_thread",))

    said = describe(supervisor, "first")
    assert said["group"] == supervisor.process("first").pid
    environment = Path(f"/proc/{supervisor.process('first').pid}/environ").read_bytes()
    assert b"JE_ARROW_MALLOC_CONF" not in environment


NETWORK = RunConfig.model_validate({"name": "any", "games": ["open_spiel:tic_tac_toe"]})
LANGUAGE = RunConfig.model_validate(
    {"name": "any", "games": ["open_spiel:tic_tac_toe"], "policy": {"model": {"path": "any"}}}
)
CHECK = """
import importlib, os, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
print(len(os.listdir("/proc/self/task")))
print("jax" in sys.modules, "torch" in sys.modules)
if "jax" in sys.modules:
    from jax._src import xla_bridge
    assert not xla_bridge._backends
"""


@pytest.mark.parametrize(
    ("config", "frameworks"), [(NETWORK, "True False"), (LANGUAGE, "False True")], ids=["network", "language"]
)
def test_what_the_server_imports_starts_no_thread_and_no_device(config: RunConfig, frameworks: str) -> None:
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
    command = [sys.executable, "-c", CHECK, *worker_imports(config)]

    said = subprocess.run(command, env=os.environ | one, capture_output=True, text=True, check=True, timeout=200).stdout

    assert said.split("\n")[:2] == ["1", frameworks]
