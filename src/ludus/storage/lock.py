"""One live process per run directory.

Invariant: the lock is the kernel's (`flock`), so it ends with the process, however it ends; the JSON in the file only
says who holds it. A file without a holder is stale and is taken over. Children never hold it: the descriptor is closed
on exec and, for children that are forked, right after the fork.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
import weakref
from pathlib import Path
from typing import Any

from ludus.errors import RunLocked, StorageError
from ludus.storage.atomic import is_alive

_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


class RunLock:
    """Hold a run directory: `with RunLock(run_dir): ...`."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            RunLocked: another process has it; the message names its pid.
        """
        if self._descriptor is not None:
            raise StorageError(f"{self.run_dir} is already locked through this object")
        descriptor = os.open(self.run_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _describe(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise RunLocked(f"{self.run_dir} is in use by {holder}") from None
        self._descriptor = descriptor
        _held.add(self)
        self._sign(descriptor)

    def release(self) -> None:
        """Give the lock up; without it, a no-op."""
        if self._descriptor is None:
            return
        os.ftruncate(self._descriptor, 0)
        self._forget()

    @staticmethod
    def holder(run_dir: Path) -> dict[str, Any] | None:
        """Who seems to hold the run (`pid`, `host`, `started`), or None. For display: takes and decides nothing."""
        try:
            with (run_dir / "lock").open("rb") as file:
                record, number = _parse(file.read(4096)), os.fstat(file.fileno()).st_ino
        except OSError:
            return None
        pid, is_copy = record.get("pid"), record.get("file", number) != number  # of a live run, say
        return record if isinstance(pid, int) and not is_copy and is_alive(pid) else None

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _sign(self, descriptor: int) -> None:
        file = os.fstat(descriptor).st_ino
        record = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.time(), "file": file}
        with contextlib.suppress(OSError):  # on a full disk the lock still holds, only unsigned
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(record).encode(), 0)

    def _forget(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


def _parse(text: bytes) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _describe(text: bytes) -> str:
    record = _parse(text)
    if "pid" not in record:
        return "another process"
    return f"process {record['pid']} on {record.get('host', 'this machine')}; stop it first (kill {record['pid']})"


def _close_in_child() -> None:
    for lock in list(_held):
        lock._forget()


os.register_at_fork(after_in_child=_close_in_child)
