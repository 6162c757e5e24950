"""The parent's side of one worker: have it launched, read its signs of life and its log, end it with all it started."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from ludus.errors import WorkerError
from ludus.runtime.channel import Channel
from ludus.runtime.fork_launcher import ForkLauncher
from ludus.runtime.launcher import Launcher, WorkerEnds, WorkerSpec
from ludus.runtime.pulse import NO_TASK, Pulse

TAIL_BYTES = 4000
KILL_S = 60.0
"""A killed process has ended by then, and its launcher has said so, even if it had to finish an import first."""


class WorkerProcess:
    """A running worker. Its end of the life pipe closes when this process dies, and then it ends itself."""

    def __init__(
        self, spec: WorkerSpec, log_path: Path, *, incarnation: int = 0, launcher: Launcher | None = None
    ) -> None:
        """`incarnation` tells this start from earlier ones under the same name. Launched on this machine by default."""
        self.spec = spec
        self.log_path = log_path
        self.pulse = Pulse()
        self.pulse.working_on(NO_TASK)
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        try:
            with log_path.open("ab") as log, theirs:
                self._log_start = log.tell()
                ends = WorkerEnds(log=log.fileno(), socket=theirs.fileno(), pulse=self.pulse.fd, life=life)
                self.process = (launcher or ForkLauncher()).launch(spec, incarnation, ends)
        except WorkerError:
            ours.close()
            os.close(self._life)
            self.pulse.close()
            raise
        finally:
            os.close(life)
        self.channel: Channel[object] = Channel(ours, spec.replies, incarnation=incarnation)

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

    def kill(self) -> None:
        """End it now, with all it has started. One that has not begun ends at once: its life pipe is closed."""
        self.process.kill()
        if self.process.has_begun:
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
