"""A process from which sandboxes are forked: ready to go, with nothing in it that a program could want.

Starting an interpreter for each program would cost several times as much. Invariant: the server never runs a program;
each program's launcher is a fork of it, with descriptors from here, and is reached through a descriptor of its own (a
pidfd), so a signal can never hit another process.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import ludus
from ludus.errors import SandboxError
from ludus.fork_server import ForkServer

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


class SandboxForkServer(ForkServer):
    """Forks launchers, from any thread."""

    def __init__(self) -> None:
        boot = (
            f"import sys; sys.path.insert(0, {source_root()!r}); "
            "from ludus.sandbox.inside.launcher import main; sys.exit(main())"
        )
        super().__init__([interpreter(), "-P", "-s", "-S", "-c", boot], ENVIRONMENT, timeout_s=READY_S)

    def launch(self, fds: Sequence[int]) -> int:
        """Start a launcher with these descriptors; returns its pidfd.

        Raises:
            SandboxError: there is no fork server, and none can be started.
        """
        with self.lock:
            for _ in range(2):
                try:
                    connection = self.connect()
                except OSError as error:
                    raise SandboxError(f"the sandbox cannot be started: {error}") from error
                try:
                    socket.send_fds(connection, [b"launch"], list(fds))
                    said, received, _, _ = socket.recv_fds(connection, 16, 1)
                except OSError:
                    said, received = b"", []
                if received:
                    return received[0]
                self.end()
        raise SandboxError(f"the sandbox cannot be started: {said.decode() or self.complaint()}")


@cache
def interpreter() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(sys.executable)


@cache
def source_root() -> str:
    """The folder that has the package."""
    return str(Path(ludus.__file__).parents[1])
