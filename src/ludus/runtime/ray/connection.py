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
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

import ludus
from ludus.errors import WorkerError
from ludus.runtime.ray.host import examine_node
from ludus.runtime.ray.host_link import HostLink
from ludus.runtime.ray.messages import (
    ADDRESS,
    NODES_S,
    Connect,
    Connected,
    FilesOf,
    FromConnection,
    Joined,
    Launch,
    Loaded,
    NodeVersions,
    Refused,
    ToConnection,
)
from ludus.runtime.ray.run_files import RunFiles

log = logging.getLogger(__name__)

MESSAGE_BYTES = 1 << 17
MOST_DESCRIPTORS = 8
PROBE_S = 3.0
"""A head that does not take a TCP connection within this is out of reach."""
HEAD_S = 4.0
"""A head may take so long to answer."""
STORE_BYTES = 200 * 2**20
"""Memory of a cluster that is started, for what travels between processes: pieces of a few megabytes."""


class Connection:
    """Ray's driver, with the links of all workers."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._links: dict[int, HostLink] = {}
        self._files: dict[FilesOf, RunFiles] = {}
        self._is_own = False

    def serve(self) -> None:
        """Connect, then launch and signal workers until the loop is gone."""
        while True:
            message, fds = self._receive()
            if message is None:
                break
            if isinstance(message, Connect):
                self._say(self._connect(message))
            elif isinstance(message, Launch):
                if self._is_own:
                    message.environment.setdefault(ADDRESS, "127.0.0.1")
                files = self._files.setdefault(message.files, RunFiles(message.files))
                link = HostLink(message, fds, files, reserves=not self._is_own)
                self._links = {number: each for number, each in self._links.items() if not each.is_over}
                self._links[message.number] = link
            elif message.number in self._links:
                self._links[message.number].signal(is_kill=message.is_kill)
        for link in self._links.values():
            link.abandon()

    def _receive(self) -> tuple[ToConnection | None, list[int]]:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, MOST_DESCRIPTORS)
        except ConnectionError:
            return None, []
        return (msgspec.msgpack.decode(data, type=ToConnection) if data else None), fds

    def _say(self, message: FromConnection) -> None:
        self._socket.send(msgspec.msgpack.encode(message))
        if isinstance(message, Refused):
            sys.exit(1)

    def _connect(self, connect: Connect) -> FromConnection:
        self._is_own = not connect.address
        try:
            if connect.address:
                probe(connect.address)
                return self._join(connect)
            return self._start_cluster(Path(connect.folder))
        except (WorkerError, ConnectionError, RuntimeError, ValueError) as error:
            return Refused(reason=one_sentence(error))

    def _join(self, connect: Connect) -> Connected:
        import ray

        address = connect.address
        self._say(Loaded())
        head: Any = import_module("ray._raylet").GcsClient(address=address)
        head.get_all_node_info(timeout=HEAD_S)  # joining itself says nothing for minutes
        self._say(Joined())
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        nodes = [node for node in ray.nodes() if node["Alive"]]
        self._say(Joined())
        check_nodes(nodes, connect)
        return Connected(address=address, cpus=[node["Resources"].get("CPU", 0.0) for node in nodes])

    def _start_cluster(self, folder: Path) -> Connected:
        write_token(folder / "token")
        (folder / "nodes").mkdir()
        os.environ |= {
            "RAY_worker_niceness": "0",  # workers share this machine as local ones do, not as what may wait
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
            "TMPDIR": str(folder / "nodes"),  # so that what killed hosts leave goes with the cluster
        }
        import ray

        made = ray.init(
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            object_store_memory=STORE_BYTES,
            _temp_dir=str(folder / "ray"),
        )
        cpus = [node["Resources"].get("CPU", 0.0) for node in ray.nodes()]
        return Connected(address=str(made.address_info["gcs_address"]), cpus=cpus)


def probe(address: str) -> None:
    """See whether anybody listens: Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), PROBE_S).close()
    except (OSError, OverflowError) as error:
        reason = "nothing answers there in time" if isinstance(error, TimeoutError) else str(error)
        advice = "start one with: ray start --head, or leave runtime.address out"
        raise WorkerError(f"runtime.address: no Ray cluster at {address} ({reason}); {advice}") from error


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
