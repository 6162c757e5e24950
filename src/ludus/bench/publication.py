"""How soon a version is on the last node: through Ray as explorers fetch it, and as a bare TCP copy of the same bytes.

The nodes are Ray's local ones, each with a cache of its own: their network is this machine's loopback. Each has two
workers that fetch at once. Counted are the seconds from the first order until all workers have the files, and how often
the bytes left the loop's disk.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import msgspec

from ludus.bench.measuring import Measured
from ludus.errors import LudusError
from ludus.runtime import Arrived, Channel, NodeFiles, Pulse, Stop, Supervisor, WorkerSpec, run_worker

NODES, WORKERS = 2, 4
DEADLINE_S = 120.0
STORE = 200 * 2**20
COPY = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
    print(flush=True)
    while header := sock.recv(8, socket.MSG_WAITALL):
        left, buffer = int.from_bytes(header, "big"), bytearray(1 << 20)
        with open(sys.argv[2], "wb") as file:
            while left:
                count = sock.recv_into(buffer, min(left, len(buffer)))
                file.write(memoryview(buffer)[:count])
                left -= count
        sock.sendall(b"x")
"""
"""A node's side of the bare copy: it writes what comes, and looks at nothing."""


class Fetch(msgspec.Struct, tag="fetch", kw_only=True):
    """Have a folder of the run on the node."""

    name: str


class Fetched(msgspec.Struct, tag="fetched", kw_only=True):
    """It is there, whole: the node has compared its hash."""

    size: int


class Broken(msgspec.Struct, tag="broken", kw_only=True):
    """The worker cannot go on."""

    reason: str


def measure_publication(megabytes: int, seconds: float) -> Measured:
    """Publish new versions for so long."""
    with tempfile.TemporaryDirectory(prefix="ludus-bench-") as folder, _cluster(Path(folder)) as address:
        from ludus.runtime.ray.launcher import Cluster, RayLauncher

        path = Path(folder)
        run, log_path = path / "run", path / "ray.log"
        run.mkdir()
        supervisor = Supervisor(path, max_restarts=0, launcher=RayLauncher(run, Cluster(log_path, address=address)))
        try:
            names = [f"w{number}" for number in range(WORKERS)]
            for name in names:
                supervisor.start(
                    WorkerSpec(name=name, module="ludus.bench.publication", replies=Fetched | Broken, stall_s=600.0)
                )
            _publish(supervisor, names, _new_version(run, 0, 1024))
            taken: list[float] = []
            end = time.monotonic() + seconds
            while len(taken) < 3 or time.monotonic() < end:
                version = _new_version(run, len(taken) + 1, megabytes * 2**20)
                began = time.perf_counter()
                _publish(supervisor, names, version)
                taken.append(time.perf_counter() - began)
            sent = log_path.read_text().count("weights.safetensors leaves for a node") - NODES
        finally:
            supervisor.stop()
    return {"seconds": median(taken), "transfers": sent / len(taken)}


def measure_copy(megabytes: int, seconds: float) -> Measured:
    """Copy the bytes of new files to as many processes, each over a connection that is open."""
    with tempfile.TemporaryDirectory(prefix="ludus-bench-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-P", "-c", COPY, str(port)]
        nodes = [subprocess.Popen([*command, f"{folder}/copy-{number}"]) for number in range(NODES)]
        links = [server.accept()[0] for _ in nodes]
        taken: list[float] = []
        end = time.monotonic() + seconds
        while len(taken) < 3 or time.monotonic() < end:
            version = _new_version(Path(folder), len(taken), megabytes * 2**20)
            began = time.perf_counter()
            _copy(version / "weights.safetensors", links)
            taken.append(time.perf_counter() - began)
        for link in links:
            link.close()
        for node in nodes:
            node.wait()
    return {"seconds": median(taken)}


def _copy(path: Path, links: list[socket.socket]) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        for link in links:
            link.sendall(size.to_bytes(8, "big"))
        offset = 0
        while offset < size:
            for link in links:
                _send_piece(link, file.fileno(), offset, min(1 << 20, size - offset))
            offset += 1 << 20
    for link in links:
        link.recv(1)


def _send_piece(link: socket.socket, file: int, offset: int, count: int) -> None:
    while count:
        sent = os.sendfile(link.fileno(), file, offset, count)
        offset, count = offset + sent, count - sent


def _new_version(run: Path, number: int, size: int) -> Path:
    folder = run / "policies" / "main" / f"{number:08d}"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(os.urandom(size))
    return folder


def _publish(supervisor: Supervisor, names: list[str], version: Path) -> None:
    """Have a version on all nodes."""
    for name in names:
        supervisor.send(name, Fetch(name=f"policies/main/{version.name}"))
    missing, end = set(names), time.monotonic() + DEADLINE_S
    size = (version / "weights.safetensors").stat().st_size
    while missing:
        if time.monotonic() > end:
            raise LudusError(f"{missing} have fetched nothing within {DEADLINE_S:g} s")
        for event in supervisor.poll(0.05):
            if not (isinstance(event, Arrived) and event.message == Fetched(size=size)):
                raise LudusError(f"a version did not arrive: {event}")
            missing.discard(event.worker)


@contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    """Ray nodes on this machine, with folders of their own; gives the address."""
    token = folder / "token"
    token.touch(0o600)
    token.write_text(os.urandom(32).hex())
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_worker_niceness": "0"}  # as what it is compared with
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
    )
    try:
        for number in range(NODES):
            own = folder / f"node-{number}"
            own.mkdir()
            cluster.add_node(num_cpus=WORKERS, object_store_memory=STORE, env_vars={"TMPDIR": str(own)})
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def _serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    """A worker on a node: fetch what is asked for."""
    while True:
        for message, _ in channel.wait(None):
            if isinstance(message, Fetch):
                pulse.set_busy(True)
                folder = files.run / message.name
                files.fetch(folder)
                channel.send(Fetched(size=(folder / "weights.safetensors").stat().st_size))
                channel.drain(DEADLINE_S)
                pulse.set_busy(False)
            else:
                return


def main() -> None:
    """Entry point of a worker."""
    run_worker(Fetch | Stop, _serve, lambda reason: Broken(reason=reason))
