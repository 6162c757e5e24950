"""A process that somebody else starts and reports on: its id and, in the end, its exit code, on a pipe."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time

from ludus.errors import WorkerError
from ludus.runtime.worker_server import REPORT

START_S = 300.0
"""Whoever starts it may take that long over its imports, on the busiest machine."""
LOOK_S = 0.1
"""Whoever waits looks again this often, since another thread may have read what it waits for."""


class ReportedProcess:
    """The part of `subprocess.Popen` that a worker needs, read from a pipe. For any thread."""

    def __init__(self, report: int) -> None:
        """`report` is the pipe on which the process id comes and, in the end, the exit code."""
        self._report = report
        self._lock = threading.Lock()
        self._said: list[int] = []
        self._is_orphan = False

    @property
    def pid(self) -> int:
        """Its process id, also of its process group; waits for it. Raises WorkerError when it was never started."""
        self._read(1, START_S)
        if not self._said:
            raise WorkerError("a worker was not forked: its fork server was lost")
        return self._said[0]

    @property
    def has_begun(self) -> bool:
        """Whether there is a process."""
        self._read(1, 0.0)
        return bool(self._said)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it lives."""
        self._read(2, 0.0)
        if len(self._said) > 1:
            return self._said[1]
        # Without whoever reports on it a worker is killed, or never begins.
        return -signal.SIGKILL if self._is_orphan else None

    def wait(self, timeout: float) -> int:
        """The exit code, once there is one. Raises `subprocess.TimeoutExpired` when there is none in time."""
        self._read(2, timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("worker", timeout)
        return code

    def fileno(self) -> int:
        """Readable when there is something new to tell."""
        return self._report

    def close(self) -> None:
        """Give the pipe back; what it has said is still known."""
        with self._lock:
            if self._report >= 0:
                os.close(self._report)
                self._report = -1

    def _read(self, count: int, timeout_s: float) -> None:
        """Take in `count` words, as far as they come in time. Others may ask meanwhile: the lock is not held long."""
        end = time.monotonic() + timeout_s
        while self._lacks(count) and (left_s := end - time.monotonic()) > 0:
            _await_readable(self._report, min(left_s, LOOK_S))

    def _lacks(self, count: int) -> bool:
        """Whether more than what is there now has to be waited for."""
        with self._lock:
            while len(self._said) < count and self._report >= 0 and not self._is_orphan:
                if not _await_readable(self._report, 0.0):
                    return True
                word = os.read(self._report, REPORT.size)
                self._said += REPORT.unpack(word) if word else ()
                self._is_orphan = not word
            return False


def _await_readable(fd: int, timeout_s: float) -> bool:
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(timeout_s * 1000))
