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
from ludus.runtime.needs import Plan
from ludus.runtime.ray.cluster_view import ClusterView
from ludus.runtime.ray.messages import (
    Connect,
    Connected,
    FromConnection,
    NodeQuestion,
    Reached,
    Refused,
    ToConnection,
)
from ludus.runtime.ray.nodes import NodeRoom

log = logging.getLogger(__name__)

BEGIN_S = 30.0
"""Our own process and its imports may take so long on a busy machine; what it does next, it says itself."""
PROBE_S = 3.0
"""A head that does not take a TCP connection within this is out of reach."""
START_S = 240.0
"""A cluster on a busy machine may take so long to start."""
END_S = 30.0
LOOK_S = 0.1
ANSWER_BYTES = 1 << 17
WRONG_TOKEN = b"InvalidAuthToken"
"""What Ray writes, over and over, when a cluster does not take our token; it would raise only after 20 s."""


ENVIRONMENT = ("JAX_", "XLA_", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""How variables begin that a worker gets as the loop has them; all else is the node's."""


def shared_environment() -> dict[str, str]:
    """The variables that workers get."""
    return {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}


def probe(address: str) -> None:
    """See whether anybody listens: Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), PROBE_S).close()
    except (OSError, OverflowError) as error:
        reason = "nothing answers there in time" if isinstance(error, TimeoutError) else str(error)
        advice = "start one with: ray start --head, or leave runtime.address out"
        raise WorkerError(f"runtime.address: no Ray cluster at {address} ({reason}); {advice}") from error


class ConnectionClient:
    """Owns the keeper process, and through it the connection and a cluster that is started."""

    def __init__(
        self,
        log_path: Path,
        *,
        address: str | None,
        asks: Sequence[NodeQuestion] = (),
        plan: Plan | None = None,
        view: ClusterView | None = None,
        is_look: bool = False,
    ) -> None:
        """Connect; `asks` is what each node of a joined cluster is asked first, `view` gets what the connection tells,
        `is_look` is for its nodes alone.

        Raises:
            WorkerError: that cannot be done, or `plan` does not fit.
        """
        plan = plan or Plan()
        self._view, self._patience_s = view or ClusterView(), plan.autoscaler_s
        self.nodes: list[NodeRoom] = []
        """Of a look."""
        self._address, self._log_path = address or "", log_path
        self.cpus: tuple[float, ...] = ()
        """Of each node, when it was joined."""
        if address is not None:
            probe(address)  # before any process is started
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
            self.send(
                Connect(
                    address=self._address,
                    folder=self._folder,
                    asks=list(asks),
                    environment=shared_environment(),
                    plan=plan,
                    is_look=is_look,
                )
            )
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

    def look(self) -> None:
        """Take in what the connection has told meanwhile."""
        while self._life >= 0:
            try:
                data = self._socket.recv(ANSWER_BYTES, socket.MSG_DONTWAIT)
            except OSError:
                return
            if not data:
                return
            self._view.take(msgspec.msgpack.decode(data, type=FromConnection))

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
        limit_s = BEGIN_S if self._address else START_S
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            has_answer = bool(select.select([self._socket], [], [], LOOK_S)[0])
            if WRONG_TOKEN in self._written():  # it may have ended by this
                raise WorkerError(
                    f"the Ray cluster at {self._address} does not take our token: set RAY_AUTH_MODE=token and "
                    "RAY_AUTH_TOKEN_PATH to the file that the cluster was started with"
                )
            if has_answer:
                said = self._take_answer()
                if isinstance(said, Connected):
                    return
                limit_s = said.next_s if isinstance(said, Reached) else limit_s + self._patience_s
                end = time.monotonic() + limit_s
        raise WorkerError(f"no Ray cluster answered within {limit_s:g} s; what it said is in {self._log_path}")

    def _take_answer(self) -> FromConnection:
        """What the connection says: that it is there, or what it does first."""
        answer = self._socket.recv(ANSWER_BYTES)
        if not answer:
            last = self._written().decode(errors="replace").strip().splitlines()[-1:]
            raise WorkerError(f"the connection to Ray ended at once: {' '.join(last) or self._log_path}")
        said: FromConnection = msgspec.msgpack.decode(answer, type=FromConnection)
        if isinstance(said, Refused):
            raise WorkerError(said.reason)
        self._view.take(said)
        if isinstance(said, Connected):
            self.nodes, self.cpus = said.nodes, tuple(said.cpus)
            self._report(said)
        return said

    def _report(self, said: Connected) -> None:
        if self._address:
            log.info("joined the Ray cluster at %s, %d nodes", said.address, said.count)
        else:
            text = "started a Ray cluster at %s; its ports are open on all interfaces, its token is in %s"
            log.warning(text, said.address, Path(self._folder) / "token")

    def _written(self) -> bytes:
        with suppress(OSError), self._log_path.open("rb") as file:
            file.seek(self._log_start)
            return file.read()
        return b""
