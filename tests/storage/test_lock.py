"""The run lock, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ludus.storage
from ludus.errors import RunLocked, StorageError
from ludus.storage.lock import RunLock

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ludus.storage.__file__).parents[2])}
HOLDER = """
import sys
from pathlib import Path
from ludus.storage.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    with pytest.raises(RunLocked, match=rf"{tmp_path} is in use by process {holder.pid}\b"):
        RunLock(tmp_path).acquire()
    found = RunLock.holder(tmp_path)
    assert found is not None
    assert found["pid"] == holder.pid


def test_lock_of_a_killed_process_is_taken_over(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == holder.pid
    assert RunLock.holder(tmp_path) is None
    with RunLock(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_released_lock_can_be_taken_again_and_has_no_holder(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    for _ in range(2):
        with lock:
            assert RunLock.holder(tmp_path) is not None
        assert RunLock.holder(tmp_path) is None
    lock.release()


def test_one_process_cannot_hold_a_run_twice(tmp_path: Path) -> None:
    with RunLock(tmp_path) as lock:
        with pytest.raises(RunLocked, match=str(os.getpid())):
            RunLock(tmp_path).acquire()
        with pytest.raises(StorageError, match="already locked"):
            lock.acquire()


def test_garbage_in_the_lock_file_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"\xff[[[")
    assert RunLock.holder(tmp_path) is None
    with RunLock(tmp_path):
        pass


FORKER = """
import os, subprocess, sys
from pathlib import Path
from ludus.storage.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.acquire()
if os.fork() == 0:
    os.write(1, b"%d\\n" % os.getpid())
    sys.stdin.read()
    os._exit(0)
os.write(1, b"%d\\n" % subprocess.Popen(["sleep", "60"]).pid)
os._exit(0)
"""


def test_children_do_not_keep_the_lock_when_their_parent_dies(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdout is not None
    forked_and_executed = [int(process.stdout.readline()) for _ in range(2)]
    process.wait()
    try:
        with RunLock(tmp_path):
            pass
    finally:
        for pid in forked_and_executed:
            os.kill(pid, signal.SIGKILL)
        process.communicate()
