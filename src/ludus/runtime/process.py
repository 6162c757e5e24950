"""The parent's side of one worker process: have it forked, read its signs of life, end it with its whole group."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ludus.errors import WorkerError
from ludus.runtime.channel import Channel
from ludus.runtime.pulse import NO_TASK, Pulse
from ludus.runtime.threads import limit_threads
from ludus.runtime.worker_server import REPORT, ForkOrder, fork_worker

TAIL_BYTES = 4000
START_S = 300.0
"""The fork server may take that long over its imports, on the busiest machine."""
LOOK_S = 0.1
"""Whoever waits looks again this often, since another thread may have read what it waits for."""
KILL_S = 60.0
"""A killed process has ended by then, and the fork server has said so, even if it had to finish an import first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """What to run as a worker and how to judge it."""

    name: str
    """Such as `explorer-0`; used in logs and errors."""
    module: str
    """Module with a `main`."""
    replies: object
    """Union of message structs that the worker may send."""
    threads: int = 1
    stall_s: float = 60.0
    """Seconds without a tick, while busy, after which the worker counts as hung."""
    imports: tuple[str, ...] = ()
    """Modules that the worker will need soon; those that it shares with other workers are imported once for all."""


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
        """Its process id; waits until there is one. Raises WorkerError when the server was lost before."""
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


class WorkerProcess:
    """A running worker. Its end of the life pipe closes when this process dies, and then it ends itself."""

    def __init__(self, spec: WorkerSpec, log_path: Path) -> None:
        self.spec = spec
        self.log_path = log_path
        self.pulse = Pulse()
        self.pulse.working_on(NO_TASK)
        ours, theirs = socket.socketpair()
        life_read, self._life = os.pipe()
        report_read, report = os.pipe()
        environment = dict(os.environ)
        limit_threads(spec.threads, environment)
        order = ForkOrder(
            module=spec.module,
            environment=environment,
            directory=os.getcwd(),
            threads=spec.threads,
            imports=[*spec.imports, spec.module],
        )
        with log_path.open("ab") as log, theirs:
            self._log_start = log.tell()
            fork_worker(order, (log.fileno(), theirs.fileno(), self.pulse.fd, life_read, report))
        os.close(life_read)
        os.close(report)
        self.process = ForkedProcess(report_read)
        self.channel: Channel[object] = Channel(ours, spec.replies)

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self.process.pid

    def log_tail(self, lines: int = 8) -> str:
        """The last lines that this process wrote."""
        with self.log_path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, log.tell() - TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def describe_exit(self) -> str:
        """How the process ended, in words."""
        code = self.process.poll()
        if code is None:
            return "closed its connection"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def ask_for_stack(self) -> None:
        """Have the worker write its stacks to its log (it may be too stuck to do so)."""
        if self.process.has_begun and self.process.poll() is None:
            os.kill(self.pid, signal.SIGUSR1)

    def kill(self) -> None:
        """End the whole process group now. A worker still to be forked ends at once: its life pipe is closed."""
        if self.process.has_begun:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait(timeout=KILL_S)
        self.close()

    def close(self) -> None:
        """Release descriptors; the process must have ended."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
            self.channel.close()
            self.pulse.close()
            self.process.close()
