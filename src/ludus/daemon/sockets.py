"""The door through which others reach a live run: `control.sock` in its directory, with the protocol of the daemon.

Invariant: only the process that holds the run's lock opens the door, and takes it away when it ends; one that a killed
process has left is replaced. It is for this user alone. Paths of sockets have at most 108 bytes, so that both sides
reach it through the directory's descriptor.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from ludus.daemon.client import Client
from ludus.daemon.messages import Failure
from ludus.daemon.protocol import write_message
from ludus.daemon.service import Service
from ludus.storage.lock import RunLock

log = logging.getLogger(__name__)

NAME = "control.sock"
BACKLOG = 16


class ControlSocket:
    """Lets clients in as soon as this process has the run, and until it is closed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._listening: socket.socket | None = None
        self._path: Path | None = None
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="control socket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Shut the door and take it away."""
        self._wake.set()
        if self._listening is not None:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _serve(self) -> None:
        path = self._await_run()
        if path is None:
            return
        try:
            self._listening = _listen(path)
        except OSError as error:
            log.warning("%s: no client can attach to this run: %s", path, error)
            return
        self._path = path / NAME
        number = 0
        while not self._wake.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            number += 1
            self._let_in(connection, f"client {number}")

    def _await_run(self) -> Path | None:
        """The directory of the run, once this process holds it."""
        while not self._wake.wait(0.1):
            loop = self._service.loop
            if loop is not None and not loop.status().is_over:
                path = Path(loop.status().run_dir)
                holder = RunLock.holder(path)
                if holder is not None and holder.get("pid") == os.getpid():
                    return path
        return None

    def _let_in(self, connection: socket.socket, name: str) -> None:
        connection.setblocking(True)
        client = Client(name, reads=connection.fileno(), writes=connection.fileno(), wants_log=True)

        def leave(client: Client) -> None:
            self._service.remove(client)
            connection.close()

        if not self._service.add(client, leave):
            refusal = Failure(code="wrong_state", message="this run has too many clients already")
            with contextlib.suppress(OSError):
                connection.sendall(write_message(refusal))
            client.close()
            connection.close()


def connect(run_dir: Path) -> socket.socket:
    """A connection to a live run.

    Raises:
        OSError: nobody is there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(run_dir) as short:
            connection.connect(str(short / NAME))
    except OSError:
        connection.close()
        raise
    return connection


def _listen(run_dir: Path) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        (run_dir / NAME).unlink()  # whoever made it is dead, for this process has the lock
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _short(run_dir) as short:
            listening.bind(str(short / NAME))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


@contextlib.contextmanager
def _short(directory: Path) -> Iterator[Path]:
    """A short path to a directory, while the block lasts."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        through = Path(f"/proc/self/fd/{descriptor}")
        yield through if through.exists() else directory
    finally:
        os.close(descriptor)
