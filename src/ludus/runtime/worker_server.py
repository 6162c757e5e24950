"""Workers' fork server: one for this process, which has imported the framework of the run.

Invariant: what a worker finds is as if it had been started alone, with the environment and the folder of that moment.
"""

from __future__ import annotations

import atexit
import os
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from ludus.errors import WorkerError
from ludus.fork_server import ForkServer
from ludus.runtime.threads import limit_threads

READ_AT_IMPORT = ("HF_", "JAX_", "LD_", "PYTHON", "TORCH", "TRANSFORMERS_")
"""How variables begin that Python and its libraries read only once: a server with other values is another server."""
REPORT = struct.Struct("<i")
"""Twice on each worker's report pipe: its process id, and then its exit code (negative: the signal)."""


class ForkOrder(msgspec.Struct, kw_only=True):
    """Which worker to fork."""

    environment: dict[str, str]
    imports: list[str]
    """Modules that the server imports first, and keeps for the next worker."""
    module: str = ""
    """Its `main` is run. Without one, the server only imports."""
    directory: str = ""
    threads: int = 1
    incarnation: int = 0
    run: str = ""
    """The run directory, or what stands for it on this machine."""
    files: str = ""
    """Socket of whoever brings files of the run there; empty where it is the run directory itself."""


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
