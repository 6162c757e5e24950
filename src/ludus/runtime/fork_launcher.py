"""Workers as processes of this machine, forked by a server that has imported what they need."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from ludus.errors import WorkerError
from ludus.runtime.launcher import WorkerEnds, WorkerSpec
from ludus.runtime.threads import limit_threads
from ludus.runtime.worker_server import REPORT, ForkOrder, fork_worker

START_S = 300.0
"""The fork server may take that long over its imports, on the busiest machine."""
LOOK_S = 0.1
"""Whoever waits looks again this often, since another thread may have read what it waits for."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class ForkLauncher:
    """Has workers forked on this machine, with the environment and the folder of the moment."""

    def __init__(self, run: Path | None = None) -> None:
        """`run` is the directory of the run whose files they find, if they work for one."""
        self._run = run

    def launch(self, spec: WorkerSpec, incarnation: int, ends: WorkerEnds) -> ForkedProcess:
        """Have a worker forked; does not wait for it."""
        environment = dict(os.environ)
        limit_threads(spec.threads, environment, devices=spec.devices)
        order = ForkOrder(
            module=spec.module,
            environment=environment,
            directory=os.getcwd(),
            threads=spec.threads,
            imports=[*spec.imports, spec.module],
            incarnation=incarnation,
            run="" if self._run is None else str(self._run),
        )
        report_read, report = os.pipe()
        try:
            fork_worker(order, (*ends, report))
        except WorkerError:
            os.close(report_read)
            raise
        finally:
            os.close(report)
        return ForkedProcess(report_read)


class ForkedProcess:
    """A child of the fork server, with the part of `subprocess.Popen` that a worker needs. For any thread."""

    def __init__(self, report: int) -> None:
        """`report` is the pipe on which the server says the process id and, in the end, the exit code."""
        self._report = report
        self._lock = threading.Lock()
        self._said: list[int] = []
        self._is_orphan = False

    @property
    def pid(self) -> int:
        """Its process id, also of its process group; waits for it. Raises WorkerError when the server was lost."""
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
        # Without its server a worker is killed by the kernel, or never begins.
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

    def cpu_s(self) -> float | None:
        """CPU seconds that it has used so far, as the kernel counts them."""
        return process_cpu_s(self.pid) if self.has_begun else None

    def write_stack(self) -> None:
        """Have the worker write its stacks to its log (it may be too stuck to do so)."""
        if self.has_begun and self.poll() is None:
            os.kill(self.pid, signal.SIGUSR1)

    def kill(self) -> None:
        """Kill its process group. One still to be forked ends by itself when its life pipe is closed."""
        if self.has_begun:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

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


def process_cpu_s(pid: int) -> float | None:
    """CPU seconds that a process of this machine has used; None where that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    except (OSError, IndexError, ValueError):
        return None


def _await_readable(fd: int, timeout_s: float) -> bool:
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(timeout_s * 1000))
