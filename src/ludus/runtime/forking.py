"""The fork server's process: imports what workers need, forks one for each order, and reports how each ended.

It must stay with one thread, or a fork of it could deadlock. Imports of jax, torch and pyarrow start none as long as
nothing is computed; should a library start one all the same, workers begin as programs of their own instead.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from ludus.runtime.worker import PR_SET_PDEATHSIG
from ludus.runtime.worker_server import REPORT, ForkOrder

MOST_DESCRIPTORS = 8


class Forking:
    """Workers that were forked here, by the descriptor that tells when they end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._reports: dict[int, int] = {}

    def serve(self) -> Callable[[], None] | None:
        """Fork until the other side is gone. In a worker's process this returns what the worker is to run."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._connection:
                    self._report_end(key.fd, int(key.data))
                    continue
                request, fds, _, _ = socket.recv_fds(self._connection, 16, MOST_DESCRIPTORS)
                if not request:
                    return None
                if (work := self._fork(_read_order(fds[0]), fds[1:])) is not None:
                    return work

    def _fork(self, order: ForkOrder, fds: list[int]) -> Callable[[], None] | None:
        _import_all(order.imports)
        if not order.module:
            return None
        gc.collect()
        gc.freeze()  # so that a worker's collector does not write to pages that all share
        *inherited, report = fds
        server, run = os.getpid(), _run if len(os.listdir("/proc/self/task")) == 1 else _execute
        has_session, tells_session = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            _die_with(server)
            self._forget()
            for fd in (report, has_session, tells_session):
                os.close(fd)
            return lambda: run(order, _settle(order, inherited))
        os.close(tells_session)
        os.read(has_session, 1)  # ends when the worker has its process group
        for fd in (*inherited, has_session):
            os.close(fd)
        with suppress(BrokenPipeError):
            os.write(report, REPORT.pack(pid))
        pidfd = os.pidfd_open(pid)
        self._reports[pidfd] = report
        self._selector.register(pidfd, selectors.EVENT_READ, pid)
        return None

    def _report_end(self, pidfd: int, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        report = self._reports.pop(pidfd)
        with suppress(BrokenPipeError):
            os.write(report, REPORT.pack(os.waitstatus_to_exitcode(status)))
        os.close(report)

    def _forget(self) -> None:
        """In a worker: close what is the server's."""
        self._selector.close()
        self._connection.close()
        for pidfd, report in self._reports.items():
            os.close(pidfd)
            os.close(report)


def _read_order(fd: int) -> ForkOrder:
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return msgspec.msgpack.decode(file.read(), type=ForkOrder)


def _import_all(modules: list[str]) -> None:
    for module in modules:
        # What cannot be imported here cannot be imported in the worker either, which says so in its log.
        with suppress(Exception):
            importlib.import_module(module)


def _die_with(server: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _settle(order: ForkOrder, fds: list[int]) -> list[str]:
    """Take on the log, folder and environment of the order; returns the worker's arguments."""
    log, sock, pulse, life = fds
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    ends = ["--socket-fd", str(sock), "--pulse-fd", str(pulse), "--life-fd", str(life)]
    run = [*(["--run", order.run] if order.run else []), *(["--files", order.files] if order.files else [])]
    return [*ends, "--incarnation", str(order.incarnation), *run]


def _run(order: ForkOrder, arguments: list[str]) -> None:
    sys.argv[:] = [order.module, *arguments]
    _set_title([sys.executable, "-P", "-m", *sys.argv])
    _separate_from_siblings(order.threads)
    importlib.import_module(order.module).main()


def _execute(order: ForkOrder, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-P", "-m", order.module, *arguments])  # noqa: S606 - our own module


def _set_title(command: list[str]) -> None:
    """Overwrite the command line that `ps` shows, in the room that the server's padding left."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = "\0".join(command).encode()[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def _separate_from_siblings(threads: int) -> None:
    """What libraries set up when they were imported, and a worker wants for itself: random numbers and threads."""
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


def main() -> None:
    """Entry point of the process, and of every worker that is forked from it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work = Forking(socket.socket(fileno=int(sys.argv[1]))).serve()
    if work is not None:
        work()


if __name__ == "__main__":
    main()
