"""The inference servers of a run: started as workers, replaced when they are lost, made known to explorers beside them.

Invariant: an explorer is told of the servers of its own node and of no others, since they listen on loopback alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ludus.config.sections.engines import VllmEngineConfig
from ludus.errors import WorkerError
from ludus.explore.messages import Servers
from ludus.inference.vllm.server import ServerOrder
from ludus.inference.vllm.server_worker import FromServer, ServerBroken, Serving
from ludus.lm.language_shape import LanguageModelShape
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.placement import EXPLORER, SERVER, server_needs, server_threads
from ludus.orchestrator.workers import Workers
from ludus.runtime import Arrived, Lost, WorkerSpec

STALL_S = 600.0
"""A server's worker that does not look after it for so long is replaced."""


class _Server(NamedTuple):
    url: str
    node: str


class EngineServers:
    """Those that `explore.engine.servers` asks for; without it there are none, and nothing is done."""

    def __init__(self, context: RunContext, workers: Workers) -> None:
        self._context, self._workers = context, workers
        self._orders: dict[str, ServerOrder] = {}
        self._serving: dict[str, _Server] = {}
        self._reasons: dict[str, str] = {}
        """Why servers were lost whose workers have yet to end."""
        self._told: dict[str, tuple[str, ...]] = {}

    def start(self, is_stopping: Callable[[], bool]) -> None:
        """Start all servers and wait until they answer, or the run is to stop.

        Raises:
            WorkerError: one was lost too often, or did not answer in time.
        """
        engine, shape = self._context.config.explore.engine, self._context.shape
        if not isinstance(engine, VllmEngineConfig) or engine.servers is None:
            return
        if not isinstance(shape, LanguageModelShape):
            raise WorkerError("explore.engine.servers: a vLLM server has language models, and this policy is none")
        for number in range(engine.servers):
            self._orders[f"{SERVER}-{number}"] = ServerOrder(
                number=number,
                command=list(engine.command),
                model=shape.model.path,
                served=engine.model,
                lora_rank=None if shape.model.lora is None else shape.model.lora.rank,
                tensor_parallel=engine.tensor_parallel,
                arguments=list(engine.arguments),
                start_s=engine.start_s,
            )
        self._workers.listen(self._absorb)
        self._workers.after_events(self._tell_explorers)
        for name in self._orders:
            self._start(name)
        self._workers.wait_until(lambda: is_stopping() or len(self._serving) == len(self._orders), whom=SERVER)

    def _start(self, name: str) -> None:
        config = self._context.config
        spec = WorkerSpec(
            name=name,
            module="ludus.inference.vllm.server_worker",
            replies=FromServer,
            threads=server_threads(config),
            stall_s=STALL_S,
            needs=server_needs(config),
        )
        self._context.supervisor.start(spec)
        self._context.supervisor.send(name, self._orders[name])

    def _absorb(self, event: Arrived | Lost) -> None:
        if isinstance(event, Lost):
            self._told.pop(event.worker, None)
        if event.worker not in self._orders:
            return
        telemetry, supervisor = self._context.telemetry, self._context.supervisor
        if isinstance(event, Lost):
            self._serving.pop(event.worker, None)
            reason = self._reasons.pop(event.worker, "") or event.reason
            telemetry.event("worker_lost", worker=event.worker, reason=reason, log_tail=event.log_tail)
            supervisor.send(event.worker, self._orders[event.worker])
        elif isinstance(event.message, Serving):
            server = _Server(event.message.url, supervisor.process(event.worker).node)
            self._serving[event.worker] = server
            telemetry.event("server_ready", worker=event.worker, url=server.url, node=server.node)
        elif isinstance(event.message, ServerBroken):
            if event.message.is_final:
                where = f" on {node}" if (node := supervisor.process(event.worker).node) else ""
                raise WorkerError(f"{event.worker}{where}: {event.message.reason}")
            self._serving.pop(event.worker, None)  # its worker ends next, and is replaced
            self._reasons[event.worker] = event.message.reason

    def _tell_explorers(self) -> None:
        """Each explorer that has a node gets to know when the servers there are others than before."""
        supervisor = self._context.supervisor
        for name in supervisor.ticks:
            if not name.startswith(EXPLORER):
                continue
            node = supervisor.process(name).node
            urls = tuple(sorted(server.url for server in self._serving.values() if server.node == node))
            if self._told.get(name, ()) != urls:
                self._told[name] = urls
                supervisor.send(name, Servers(urls=list(urls)))
