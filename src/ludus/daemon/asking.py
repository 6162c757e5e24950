"""Ask the process of a live run one thing and wait for the answer, through its control socket.

Invariant: a run is asked only by who can open its socket, which is its user; nothing is written to its directory.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from ludus.daemon.messages import Ack, Failure, Payload
from ludus.daemon.protocol import CHUNK_BYTES, LineSplitter, parse_notification, read_payload, write_command
from ludus.daemon.sockets import connect
from ludus.errors import LudusError
from ludus.storage.lock import RunLock

REACH_S = 20.0
"""How long a process that holds the run may take to open its socket: it does so a moment after it took the lock."""
POLL_S = 0.05


class NotRunning(LudusError):
    """No process runs it, or none that can be reached."""


def ask_run(run_dir: Path, command: Payload, *, timeout_s: float | None = None) -> dict[str, Any] | None:
    """The result of a command; None when the process ended instead of answering.

    Raises:
        NotRunning: there is no process to ask.
        LudusError: it refused, or did not answer in time.
    """
    with _reach(run_dir) as link:
        link.settimeout(timeout_s)
        try:
            link.sendall(write_command(command, command.type))
            reply = _await(link, command.type)
        except TimeoutError:
            raise LudusError(f"{run_dir} did not answer {command.type} within {timeout_s:g} s") from None
        except OSError:
            reply = None
    if isinstance(reply, Failure):
        raise LudusError(reply.message)
    return None if reply is None else reply.result


def _reach(run_dir: Path) -> socket.socket:
    end = time.monotonic() + REACH_S
    while True:
        holder = RunLock.holder(run_dir)
        try:
            return connect(run_dir)
        except OSError as error:
            if holder is None:
                raise NotRunning(f"no process runs {run_dir}") from error
            if isinstance(error, PermissionError) or time.monotonic() >= end:
                who = f"process {holder['pid']} runs {run_dir}"
                raise NotRunning(f"{who} but cannot be reached: {error.strerror or error}") from error
        time.sleep(POLL_S)


def _await(link: socket.socket, id: str) -> Ack | Failure | None:
    """The reply with this id; what else is told is passed over."""
    splitter = LineSplitter()
    while chunk := link.recv(CHUNK_BYTES):
        for line in splitter.feed(chunk):
            found = parse_notification(line) if isinstance(line, bytes) else None
            if found is not None and found[0].id == id:
                payload = read_payload(*found)
                return payload if isinstance(payload, Ack | Failure) else None
    return None
