"""A process that others are forked from: it has imported what they need, so each starts in milliseconds.

Invariant: a fork server has one thread, runs no one else's code and computes nothing. It ends when the process that
started it ends, however that ended, because its connection closes then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from ludus.errors import WorkerError
from ludus.runtime.threads import limit_threads

READ_AT_IMPORT = ("HF_", "JAX_", "LD_", "PYTHON", "TORCH", "TRANSFORMERS_")
"""How variables begin that Python and its libraries read only once: a server with other values is another server."""
REPORT = struct.Struct("<i")
"""Twice on each worker's report pipe: its process id, and then its exit code (negative: the signal)."""
TITLE_BYTES = 120
"""Room on the server's command line in which a worker writes its own, for `ps`."""


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


class ForkOrder(msgspec.Struct, kw_only=True):
    """Which worker to fork."""

    environment: dict[str, str]
    imports: list[str]
    """Modules that the server imports first, and keeps for the next worker."""
    module: str = ""
    """Its `main` is run. Without one, the server only imports."""
    arguments: list[str] = []
    directory: str = ""
    threads: int = 1


def fork_worker(order: ForkOrder, fds: Sequence[int]) -> None:
    """Have a worker forked that gets these descriptors; does not wait for it.

    `fds` are: log, socket, pulse, life pipe, and the pipe on which the server reports the worker's id and exit code.

    Raises:
        WorkerError: there is no fork server, and none can be started.
    """
    server = _worker_server(_read_at_import(order.environment))
    with server.lock, os.fdopen(os.memfd_create("fork-order"), "wb") as file:
        file.write(msgspec.msgpack.encode(order))
        file.flush()
        for _ in range(2):
            try:
                socket.send_fds(server.connect(), [b"fork"], [file.fileno(), *fds])
            except OSError as error:
                problem = error
                server.end()
            else:
                return
    raise WorkerError(f"no worker can be started: {problem} ({server.complaint()})")


def warm_up(imports: Sequence[str]) -> None:
    """Start the fork server of this process and have it import what its workers will need; does not wait for it."""
    environment = dict(os.environ)
    limit_threads(1, environment)
    fork_worker(ForkOrder(environment=environment, imports=list(imports)), ())


def _read_at_import(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in environment.items() if item[0].startswith(READ_AT_IMPORT)))


@cache
def _worker_server(settings: tuple[tuple[str, str], ...]) -> ForkServer:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(READ_AT_IMPORT)}
    environment |= dict(settings)
    limit_threads(1, environment)
    environment["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # else pyarrow starts a thread on import
    # Not the current folder first on the path (-P): what lies there is not ours.
    server = ForkServer([sys.executable, "-P", "-m", "ludus.runtime.forking"], environment, timeout_s=300.0)
    atexit.register(server.close)
    return server
