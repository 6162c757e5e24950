"""A process from which sandboxes are forked: ready to go, with nothing in it that a program could want.

Starting an interpreter for each program would cost several times as much. Invariant: the nursery never runs a program;
each program's launcher is a fork of it, with descriptors from here, and is reached through a descriptor of its own (a
pidfd), so a signal can never hit another process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import ludus
from ludus.errors import SandboxError

ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
    "TMPDIR": "/tmp",  # noqa: S108
}
"""All that a program finds in its environment. With a fixed hash seed, a set of words has the same order each time."""
READY_S = 60.0
"""An interpreter starts within this time, on the busiest machine."""


class Nursery:
    """Forks launchers, from any thread. Its process is made when it is first needed, and again if it was lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process that writes it

    def launch(self, fds: Sequence[int]) -> int:
        """Start a launcher with these descriptors; returns its pidfd.

        Raises:
            SandboxError: there is no nursery, and none can be made.
        """
        with self._lock:
            for _ in range(2):
                connection = self._connect()
                try:
                    socket.send_fds(connection, [b"launch"], list(fds))
                    said, received, _, _ = socket.recv_fds(connection, 16, 1)
                except OSError:
                    said, received = b"", []
                if received:
                    return received[0]
                self._end()
        raise SandboxError(f"the sandbox cannot be started: {said.decode() or self._complaint()}")

    def close(self) -> None:
        """End it. Launchers that are still there end by themselves when their parent is gone."""
        with self._lock:
            self._end()
            self._complaints.close()

    def __del__(self) -> None:
        """Whoever forgets to close it leaves no process behind."""
        with contextlib.suppress(Exception):
            self.close()

    def _connect(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(READY_S)
        boot = (
            f"import sys; sys.path.insert(0, {source_root()!r}); "
            "from ludus.sandbox.inside.forking import main; sys.exit(main())"
        )
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [interpreter(), "-P", "-s", "-S", "-c", boot, str(theirs.fileno())],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._complaints,
                    env=ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise SandboxError(f"the sandbox cannot be started: {error}") from error
        self._socket = ours
        return ours

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _complaint(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read(1 << 16).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"


@cache
def interpreter() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(sys.executable)


@cache
def source_root() -> str:
    """The folder that has the package."""
    return str(Path(ludus.__file__).parents[1])
