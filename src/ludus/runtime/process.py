"""The parent's side of one worker process: start it, read its signs of life, end it with its whole group."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ludus.runtime.channel import Channel
from ludus.runtime.pulse import NO_TASK, Pulse
from ludus.runtime.threads import limit_threads

TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """What to run as a worker and how to judge it."""

    name: str
    """Such as `explorer-0`; used in logs and errors."""
    module: str
    """Module with a `main`, run with `python -m`."""
    replies: object
    """Union of message structs that the worker may send."""
    threads: int = 1
    stall_s: float = 60.0
    """Seconds without a tick, while busy, after which the worker counts as hung."""
    arguments: tuple[str, ...] = field(default=())
    """Put before the descriptors on the worker's command line."""


class WorkerProcess:
    """A running worker. Its end of the life pipe closes when this process dies, and then it ends itself."""

    def __init__(self, spec: WorkerSpec, log_path: Path) -> None:
        self.spec = spec
        self.log_path = log_path
        self.pulse = Pulse()
        self.pulse.working_on(NO_TASK)
        ours, theirs = socket.socketpair()
        life_read, self._life = os.pipe()
        environment = dict(os.environ)
        limit_threads(spec.threads, environment)
        with log_path.open("ab") as log, theirs:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", spec.module, *spec.arguments),
                    *("--socket-fd", str(theirs.fileno())),
                    *("--pulse-fd", str(self.pulse.fd)),
                    *("--life-fd", str(life_read)),
                ],
                pass_fds=(theirs.fileno(), self.pulse.fd, life_read),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        os.close(life_read)
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
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        """End the whole process group now and reap the worker."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            self.process.poll()
        self.process.wait(timeout=10)
        self.close()

    def close(self) -> None:
        """Release descriptors; the process must have ended."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
            self.channel.close()
            self.pulse.close()
