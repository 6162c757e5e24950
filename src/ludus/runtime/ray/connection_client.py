"""The loop's end of the connection to a Ray cluster: starts it, and tells in one sentence why there is none.

Invariant: opening is bounded in time and leaves no process behind when it fails; a connection that is lost is noticed
by the next launch, which every lost worker brings about.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ludus.errors import WorkerError
from ludus.runtime.ray.messages import (
    NODES_S,
    Connect,
    Connected,
    FromConnection,
    Joined,
    Loaded,
    NodeQuestion,
    Refused,
    ToConnection,
)

log = logging.getLogger(__name__)

LOAD_S = 30.0
"""Ray is loaded within this, on a busy machine."""
JOIN_S = 5.0
"""A cluster that takes us says so within this; a user with a wrong address waits no longer."""
START_S = 240.0
"""A cluster on a busy machine may take so long to start."""
END_S = 30.0
LOOK_S = 0.1
ANSWER_BYTES = 1 << 16
WRONG_TOKEN = b"InvalidAuthToken"
"""What Ray writes, over and over, when a cluster does not take our token; it would raise only after 20 s."""


ENVIRONMENT = ("JAX_", "XLA_", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""How variables begin that a worker gets as the loop has them; all else is the node's."""


def shared_environment() -> dict[str, str]:
    """The variables that workers get."""
    return {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}


class ConnectionClient:
    """Owns the keeper process, and through it the connection and a cluster that is started."""

    def __init__(self, log_path: Path, *, address: str | None, asks: Sequence[NodeQuestion] = ()) -> None:
        """Connect; `asks` is what each node of a joined cluster is asked first. Raises WorkerError if that fails."""
        self._address, self._log_path = address or "", log_path
        self.cpus: tuple[float, ...] = ()
        """Of each node, when it was joined."""
        self._folder = tempfile.mkdtemp(prefix="ludus-ray-")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, self._life = os.pipe()
        with theirs, log_path.open("ab") as output:
            self._log_start = output.tell()
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", "-m", "ludus.runtime.ray.keeper", str(theirs.fileno()), str(life), self._folder],
                pass_fds=(theirs.fileno(), life),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        os.close(life)
        try:
            environment = shared_environment()
            self.send(Connect(address=self._address, folder=self._folder, asks=list(asks), environment=environment))
            self._await_connection()
        except WorkerError:
            self.close()
            raise

    def send(self, message: ToConnection, fds: Sequence[int] = ()) -> None:
        """Tell the connection something; descriptors go with it.

        Raises:
            WorkerError: it is lost.
        """
        try:
            socket.send_fds(self._socket, [msgspec.msgpack.encode(message)], fds)
        except OSError as error:
            where = f"at {self._address}" if self._address else "that ludus started"
            raise WorkerError(
                f"the Ray cluster {where} was lost: its head has ended or cannot be reached. What is on disk is whole; "
                "the next start resumes the run from its newest checkpoint"
            ) from error

    def close(self) -> None:
        """Leave the cluster, or stop the one that was started; waits until nothing of it is left."""
        if self._life < 0:
            return
        self._socket.close()
        os.close(self._life)
        self._life = -1
        try:
            self._keeper.wait(END_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()

    def _await_connection(self) -> None:
        limit_s = LOAD_S if self._address else START_S
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if select.select([self._socket], [], [], LOOK_S)[0]:
                limit_s = self._take_answer()
                if not limit_s:
                    return
                end = time.monotonic() + limit_s
            if WRONG_TOKEN in self._written():
                raise WorkerError(
                    f"the Ray cluster at {self._address} does not take our token: set RAY_AUTH_MODE=token and "
                    "RAY_AUTH_TOKEN_PATH to the file that the cluster was started with"
                )
        raise WorkerError(f"no Ray cluster answered within {limit_s:g} s; what it said is in {self._log_path}")

    def _take_answer(self) -> float:
        """How much longer the connection may take; 0 when it is ready."""
        answer = self._socket.recv(ANSWER_BYTES)
        if not answer:
            last = self._written().decode(errors="replace").strip().splitlines()[-1:]
            raise WorkerError(f"the connection to Ray ended at once: {' '.join(last) or self._log_path}")
        said = msgspec.msgpack.decode(answer, type=FromConnection)
        if isinstance(said, Refused):
            raise WorkerError(said.reason)
        if isinstance(said, Loaded):
            return JOIN_S
        if isinstance(said, Joined):
            return 2 * NODES_S  # the connection itself gives up before
        self.cpus = tuple(said.cpus)
        self._report(said)
        return 0.0

    def _report(self, said: Connected) -> None:
        if self._address:
            log.info("joined the Ray cluster at %s, %d nodes", said.address, len(said.cpus))
        else:
            text = "started a Ray cluster at %s; its ports are open on all interfaces, its token is in %s"
            log.warning(text, said.address, Path(self._folder) / "token")

    def _written(self) -> bytes:
        with suppress(OSError), self._log_path.open("rb") as file:
            file.seek(self._log_start)
            return file.read()
        return b""
