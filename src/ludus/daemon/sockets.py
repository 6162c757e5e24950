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
from typing import TYPE_CHECKING

from ludus.daemon.client import Client
from ludus.daemon.messages import Failure
from ludus.daemon.protocol import write_message
from ludus.storage.atomic import temporary_name
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.daemon.service import Service
    from ludus.runs.staged import AnyRun

log = logging.getLogger(__name__)

BACKLOG = 16
POLL_S = 0.1
CLOSE_S = 2.0


class ControlSocket:
    """Lets clients in while this process has a run, one run after the other, until it is closed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="control socket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Shut the door and take it away. Clients that are in stay."""
        self._closing.set()
        self._thread.join(CLOSE_S)

    def _serve(self) -> None:
        number = 0
        while not self._closing.wait(POLL_S):
            loop = self._service.run.loop
            if loop is None or not _has_lock(loop):
                continue
            door = RunDirectory(Path(loop.status().run_dir)).control
            try:
                listening = _listen(door)
            except OSError as error:
                log.warning("%s: no client can attach to this run: %s", door, error)
                return
            with listening:
                while not self._closing.is_set() and not loop.status().is_over:
                    with contextlib.suppress(TimeoutError):
                        connection, _ = listening.accept()
                        number += 1
                        self._let_in(connection, f"client {number}")
            with contextlib.suppress(OSError):
                door.unlink()

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
    door = RunDirectory(run_dir).control
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(door) as short:
            connection.connect(str(short))
    except OSError:
        connection.close()
        raise
    return connection


def _has_lock(loop: AnyRun) -> bool:
    status = loop.status()
    holder = None if status.is_over else RunLock.holder(Path(status.run_dir))
    return holder is not None and holder.get("pid") == os.getpid()


def _listen(door: Path) -> socket.socket:
    made = temporary_name(door.parent)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _short(made) as short:
            listening.bind(str(short))
        listening.listen(BACKLOG)
        listening.settimeout(POLL_S)
        made.rename(door)  # one that a dead process left is replaced, for this process has the lock
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


@contextlib.contextmanager
def _short(door: Path) -> Iterator[Path]:
    """A short path to a file in a directory, while the block lasts."""
    descriptor = os.open(door.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        through = Path(f"/proc/self/fd/{descriptor}")
        yield through / door.name if through.exists() else door
    finally:
        os.close(descriptor)
