"""A process that others are forked from: it has imported what they need, so each starts in milliseconds.

Invariant: a fork server has one thread, runs no one else's code and computes nothing. It ends when the process that
started it ends, however that ended, because its connection closes then. This file needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence

TITLE_BYTES = 120
"""Room on the server's command line in which a forked process may write its own, for `ps`."""


class ForkServer:
    """The client's side, for any thread. The process is made when it is first needed, and again if it was lost."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], *, timeout_s: float) -> None:
        """`command` starts it; the number of its socket is put after it. An answer must come within `timeout_s`."""
        self.lock = threading.RLock()
        self._command = command
        self._environment = environment
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process that writes it

    def connect(self) -> socket.socket:
        """The connection to it, started now if need be. Raises OSError when it cannot be started."""
        with self.lock:
            if self._socket is None:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ours.settimeout(self._timeout_s)
                with theirs:
                    self._process = subprocess.Popen(
                        [*self._command, str(theirs.fileno()), " " * TITLE_BYTES],
                        pass_fds=(theirs.fileno(),),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=self._complaints,
                        env=dict(self._environment),
                        cwd="/",
                        start_new_session=True,
                    )
                self._socket = ours
            return self._socket

    def end(self) -> None:
        """End the process; the next request starts another."""
        with self.lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None

    def complaint(self) -> str:
        """The last line that it wrote."""
        self._complaints.seek(0)
        lines = self._complaints.read(1 << 16).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    def close(self) -> None:
        """End it for good."""
        self.end()
        self._complaints.close()

    def __del__(self) -> None:
        """Whoever forgets to close it leaves no process behind."""
        with contextlib.suppress(Exception):
            self.close()
