"""The connection to a Ray cluster: a process of its own, since Ray ends its driver without a word with the head.

It joins a cluster or starts one, and has a `HostLink` for each worker. Invariant: it writes nothing but what hosts hand
over for the run (`run_files.py`), and ends when the loop closes its socket. Executed as
`python -m ludus.runtime.ray.connection SOCKET`.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

import ludus
from ludus.errors import WorkerError
from ludus.runtime.needs import Plan
from ludus.runtime.ray.file_server import FileServer, HostFiles
from ludus.runtime.ray.host import examine_node, own_address
from ludus.runtime.ray.host_link import HostLink
from ludus.runtime.ray.messages import (
    ADDRESS,
    NODES_S,
    Connect,
    Connected,
    FilesOf,
    FromConnection,
    Launch,
    NodeVersions,
    Reached,
    Refused,
    Room,
    ToConnection,
    Waits,
)
from ludus.runtime.ray.nodes import NodeRoom, known_nodes
from ludus.runtime.ray.placing import SETTLE_S, Placing
from ludus.runtime.ray.run_files import RunFiles

log = logging.getLogger(__name__)

MESSAGE_BYTES = 1 << 17
MOST_SHOWN = 200
"""Nodes that are told of at most."""
WATCH_S = 1.0
MOST_DESCRIPTORS = 8
HEAD_S = 4.0
"""A head may take so long to answer."""
JOIN_S = HEAD_S + 1.0
STORE_BYTES = 200 * 2**20
"""Memory of a cluster that is started, for what travels between processes: pieces of a few megabytes."""


class Connection:
    """Ray's driver, with the links of all workers."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._links: dict[int, HostLink] = {}
        self._files: dict[FilesOf, RunFiles] = {}
        self._placing = Placing(Plan(), is_own=True)
        self._seen = 0
        self._server: FileServer | None = None

    def serve(self) -> None:
        """Connect, then launch and signal workers until the loop is gone."""
        while True:
            message, fds = self._receive()
            if message is None:
                break
            if isinstance(message, Connect):
                self._say(self._connect(message))
                threading.Thread(target=self._watch, name="watch", daemon=True).start()
            elif isinstance(message, Launch):
                if self._placing.is_own:
                    message.environment.setdefault(ADDRESS, "127.0.0.1")
                link = HostLink(message, fds, self._files_for(message.files), self._placing, self._tell)
                self._links = {number: each for number, each in self._links.items() if not each.is_over}
                self._links[message.number] = link
                self._seen = message.number
            elif message.number in self._links:
                self._links[message.number].signal(is_kill=message.is_kill)
        for link in self._links.values():
            link.abandon()
        self._placing.release()

    def _files_for(self, files: FilesOf) -> HostFiles:
        """What a host may have; one of no run has no line."""
        if files not in self._files:
            self._files[files] = RunFiles(files)
        if files.run and self._server is None:
            self._server = FileServer("127.0.0.1" if self._placing.is_own else own_address())
        return HostFiles(self._files[files], self._tell, self._server if files.run else None)

    def _receive(self) -> tuple[ToConnection | None, list[int]]:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, MOST_DESCRIPTORS)
        except ConnectionError:
            return None, []
        return (msgspec.msgpack.decode(data, type=ToConnection) if data else None), fds

    def _say(self, message: FromConnection) -> None:
        self._socket.send(msgspec.msgpack.encode(message))
        if isinstance(message, Refused):
            os._exit(1)  # Ray's own farewell takes seconds, and nothing of ours is left with it

    def _tell(self, message: FromConnection) -> None:
        """Say what the loop may miss: nobody waits for it. For any thread."""
        with suppress(OSError):
            self._socket.send(msgspec.msgpack.encode(message), socket.MSG_DONTWAIT)

    def _watch(self) -> None:
        """The thread that tells how many nodes there are, and what further explorers have room for."""
        told: tuple[list[NodeRoom], int] | None = None
        steady_since, seen = time.monotonic(), 0
        while True:
            time.sleep(WATCH_S)
            try:
                now, nodes = time.monotonic(), self._placing.nodes()
                if seen != self._seen or any(link.is_placing for link in [*self._links.values()]):
                    steady_since, seen = now, self._seen
                spare = self._placing.count_spare() if now - steady_since > SETTLE_S else 0
            except Exception as error:  # Ray raises whatever it likes while nodes come and go
                log.info("the nodes cannot be told: %s", error)
                continue
            if told != (nodes, spare) or spare:
                told = (nodes, spare)
                self._tell(Room(nodes=len(nodes), table=nodes[:MOST_SHOWN], spare=spare, seen=seen))

    def _connect(self, connect: Connect) -> FromConnection:
        self._placing = Placing(connect.plan, is_own=not connect.address)
        try:
            if connect.address:
                self._join(connect)
            else:
                self._start_cluster(Path(connect.folder))
            nodes = self._placing.nodes()
            cpus = [node.total.get("CPU", 0.0) for node in nodes]
            if connect.is_look:
                return Connected(address=connect.address, nodes=nodes[:MOST_SHOWN], count=len(nodes), cpus=cpus)
            self._placing.settle(_saying(self._tell))
            return Connected(address=connect.address or self._own_address(), count=len(nodes), cpus=cpus)
        except (WorkerError, ConnectionError, RuntimeError, ValueError) as error:
            return Refused(reason=one_sentence(error))

    @staticmethod
    def _own_address() -> str:
        import ray

        return str(ray.get_runtime_context().gcs_address)

    def _join(self, connect: Connect) -> None:
        import ray

        self._say(Reached(next_s=JOIN_S))
        head: Any = import_module("ray._raylet").GcsClient(address=connect.address)
        known = head.get_all_node_info(timeout=HEAD_S)  # joining itself says nothing for minutes
        if not connect.is_look:
            self._placing.check(known_nodes(known.values()))
        self._say(Reached(next_s=2 * NODES_S))
        ray.init(address=connect.address, log_to_driver=False, configure_logging=False)
        self._say(Reached(next_s=2 * NODES_S))
        check_nodes([node for node in ray.nodes() if node["Alive"]], connect)

    @staticmethod
    def _start_cluster(folder: Path) -> None:
        write_token(folder / "token")
        (folder / "nodes").mkdir()
        os.environ |= {
            "RAY_worker_niceness": "0",  # workers share this machine as local ones do, not as what may wait
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
            "TMPDIR": str(folder / "nodes"),  # so that what killed hosts leave goes with the cluster
        }
        import ray

        ray.init(
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            object_store_memory=STORE_BYTES,
            _temp_dir=str(folder / "ray"),
        )


def _saying(tell: Callable[[FromConnection], None]) -> Callable[[str], None]:
    """Tells of a wait when it begins and when its reason changes."""
    said = ""

    def say(reason: str) -> None:
        nonlocal said
        if reason != said:
            said = reason
            tell(Waits(reason=reason))

    return say


def write_token(path: Path) -> None:
    """A fresh token that its owner alone can read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w") as token:
        token.write(secrets.token_hex(32))


def check_nodes(nodes: list[dict[str, Any]], connect: Connect) -> None:
    """Ask each node for its versions and what is wrong; raises WorkerError when one differs, lacks or is silent."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ours = NodeVersions(ray=ray.__version__, python=platform.python_version(), ludus=ludus.__version__)
    order = msgspec.msgpack.encode(connect)
    ask, on_node = ray.remote(examine_node), partial(NodeAffinitySchedulingStrategy, soft=False)
    asked = {
        ask.options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node["NodeID"])).remote(order): node
        for node in nodes
    }
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=NODES_S)
    for reference in silent:
        raise WorkerError(f"node {asked[reference]['NodeManagerAddress']} does not answer within {NODES_S:g} s")
    for reference in answered:
        where = asked[reference]["NodeManagerAddress"]
        try:
            theirs = msgspec.msgpack.decode(ray.get(reference), type=NodeVersions)
        except Exception as error:
            raise WorkerError(f"node {where} cannot run ludus: {one_sentence(error)}") from error
        if theirs.problem:
            raise WorkerError(f"node {where}: {theirs.problem}")
        if theirs != ours:
            raise WorkerError(f"node {where} has {describe(theirs)}, and this machine {describe(ours)}")


def describe(versions: NodeVersions) -> str:
    """Versions in words."""
    return f"Ray {versions.ray}, Python {versions.python} and ludus {versions.ludus}"


def one_sentence(error: BaseException) -> str:
    """What an error of Ray says, without its tower of frames."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:600] if "Version mismatch" in str(error) else (lines[-1] if lines else type(error).__name__)


def main() -> None:
    """Entry point of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    Connection(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)  # Ray's own farewell may wait for a cluster that the keeper ends next


if __name__ == "__main__":
    main()
