"""Workers as processes on the nodes of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock

import msgspec

from ludus.errors import WorkerError
from ludus.runtime.fork_launcher import ForkedProcess, ForkLauncher
from ludus.runtime.launcher import WorkerEnds, WorkerSpec
from ludus.runtime.needs import Plan
from ludus.runtime.pulse import CPU_MS, NODE_LOAD, Pulse
from ludus.runtime.ray.cluster_view import ClusterView
from ludus.runtime.ray.connection_client import ConnectionClient, shared_environment
from ludus.runtime.ray.messages import FilesOf, Launch, NodeQuestion, Signal
from ludus.runtime.readings import NodeReading
from ludus.runtime.reported_process import ReportedProcess


class Cluster:
    """One connection for all launchers of a run and of its parts, which may be in threads of their own."""

    def __init__(
        self,
        log_path: Path,
        *,
        address: str | None = None,
        asks: Sequence[NodeQuestion] = (),
        plan: Plan | None = None,
        tell: Callable[..., None] = lambda kind, **fields: None,
    ) -> None:
        """Without an `address` a cluster is started, with the first worker; else each node is asked what `asks` has.

        `plan` must fit before anything is started. `tell` gets `worker_waits` and `worker_placed`.
        """
        self._log_path, self._address, self._asks, self._plan = log_path, address, asks, plan
        self.view = ClusterView(tell)
        """What is known of the cluster."""
        self._lock = Lock()
        self._client: ConnectionClient | None = None
        self.numbers = count(1)
        """Of all starts of workers."""

    def client(self) -> ConnectionClient:
        """The connection. Raises WorkerError if there is none to be had."""
        with self._lock:
            if self._client is None:
                self._client = ConnectionClient(
                    self._log_path, address=self._address, asks=self._asks, plan=self._plan, view=self.view
                )
            return self._client

    @property
    def is_joined(self) -> bool:
        """Whether it is somebody else's."""
        return self._address is not None

    def look(self) -> None:
        """Take in what the connection tells; never waits."""
        if self._client is not None and self._lock.acquire(blocking=False):
            try:
                if self._client is not None:
                    self._client.look()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Leave the cluster, or stop the one that was started."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


class RayLauncher:
    """Connects with the first worker. Those that need the run's disk are processes of this machine."""

    def __init__(
        self,
        run: Path | None,
        cluster: Cluster,
        *,
        outside: Mapping[str, str] = {},
        links: Sequence[Path] = (),
        is_part: bool = False,
    ) -> None:
        """Workers may have the files of `run`, where its `links` lead, and those `outside` it, by name. A part
        leaves the cluster open when it is closed."""
        self.cluster = cluster
        self._local, self._is_part = ForkLauncher(run), is_part
        self._files = FilesOf(
            run="" if run is None else str(run.resolve()),
            outside=tuple(outside.items()),
            links=tuple(str(link.resolve()) for link in links),
        )

    def open(self) -> None:
        """Join the cluster. One of our own is started with the first worker on it: it has what this machine has.

        Raises:
            WorkerError: there is no cluster, or a node of it lacks something.
        """
        if self.cluster.is_joined:
            self.cluster.client()

    def node_cpus(self) -> tuple[float, ...]:
        """CPUs of each node; nothing where workers take none, since they share this machine."""
        return self.cluster.client().cpus if self.cluster.is_joined else ()

    def launch(self, spec: WorkerSpec, incarnation: int, ends: WorkerEnds) -> HostedProcess | ForkedProcess:
        """Have a worker started on some node; does not wait for it.

        Raises:
            WorkerError: there is no cluster, or it was lost.
        """
        if spec.needs_run_disk:
            return self._local.launch(spec, incarnation, ends)
        client = self.cluster.client()
        launch = Launch(
            number=next(self.cluster.numbers),
            name=spec.name,
            module=spec.module,
            imports=list(spec.imports),
            threads=spec.threads,
            devices=spec.devices,
            incarnation=incarnation,
            environment=shared_environment(),
            files=self._files,
            needs=msgspec.structs.replace(
                spec.needs, cpus=float(spec.threads) if spec.needs.cpus is None else spec.needs.cpus
            ),
        )
        self.cluster.view.expect(launch.number, spec.name)
        read, report = os.pipe()
        try:
            client.send(launch, (*ends, report))
        except WorkerError:
            os.close(read)
            raise
        finally:
            os.close(report)
        return HostedProcess(read, launch.number, client, Pulse(os.dup(ends.pulse)), self.cluster.view)

    @property
    def has_spare(self) -> bool:
        """Whether the cluster has room for a further explorer. After a start it is not known for some seconds."""
        return self.cluster.view.has_spare

    def nodes(self) -> tuple[NodeReading, ...]:
        """The nodes that live, as they were told of last."""
        return self.cluster.view.nodes

    def transfers(self) -> dict[str, float]:
        """How files travelled. Of a part nothing is told: nobody knows whose version it was."""
        return {} if self._is_part else self.cluster.view.transfers.metrics()

    def look(self) -> None:
        """Take in what is told of workers on nodes."""
        self.cluster.look()

    def close(self) -> None:
        """Leave the cluster, unless the whole that this is a part of is still there."""
        if not self._is_part:
            self.cluster.close()


class HostedProcess(ReportedProcess):
    """A worker on some node. Load is what its host told last."""

    def __init__(self, report: int, number: int, client: ConnectionClient, pulse: Pulse, view: ClusterView) -> None:
        super().__init__(report)
        self._number, self._client, self._pulse, self._view = number, client, pulse, view

    @property
    def node(self) -> str:
        """The name of its node; empty before it has one."""
        return self._view.node_of(self._number)

    def cpu_s(self) -> float | None:
        """CPU seconds that it had used when its host last told."""
        return int(self._pulse.words[CPU_MS]) / 1000 if self.has_begun else None

    @property
    def node_load(self) -> float | None:
        """The load of its node for each core."""
        told = int(self._pulse.words[NODE_LOAD])
        return (told - 1) / 1000 if told else None

    def write_stack(self) -> None:
        """Have it write its stacks to its log, which comes here."""
        self._signal(is_kill=False)

    def kill(self) -> None:
        """Kill it with all it has started; a node that does not answer is not waited for."""
        self._signal(is_kill=True)

    def close(self) -> None:
        """Give descriptors back."""
        if self._report >= 0:
            self._pulse.close()
            self._view.forget(self._number)
        super().close()

    def _signal(self, *, is_kill: bool) -> None:
        with suppress(WorkerError):  # with the connection its workers are gone
            self._client.send(Signal(number=self._number, is_kill=is_kill))
