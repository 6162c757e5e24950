"""The program that makes data for the run's loader (`buffer.loader.command`), as the loop sees it.

It is a worker like others: started with the run, ended with it, replaced when it fails, and when it fails too often
(`runtime.max_restarts`) the run fails, with its last lines. One that ends with code 0 has done what it was asked for.
"""

from __future__ import annotations

import time

from ludus.orchestrator.context import RunContext
from ludus.orchestrator.workers import Workers
from ludus.runtime import Arrived, Lost, WorkerSpec
from ludus.sources.producer_worker import FromProducer, Produce, Produced

NAME = "producer"
SEEN_S = 5.0
"""A loader has found by then what was written."""


class Producer:
    """The program that the config names, if it names one."""

    def __init__(self, context: RunContext, workers: Workers) -> None:
        self._context, self._workers = context, workers
        self._order = Produce(command=[])
        self._ended_at: float | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether it has ended well, and long enough ago that the loader has seen all that it wrote."""
        return self._ended_at is not None and time.monotonic() - self._ended_at > SEEN_S

    def start(self) -> None:
        """Start the program."""
        context, loader = self._context, self._context.config.buffer.loader
        if loader is None or not loader.command:
            return
        self._order = Produce(command=list(loader.of_run(str(context.run.path)).command))
        threads = context.config.runtime.threads or 1
        context.supervisor.start(
            WorkerSpec(
                name=NAME,
                module="ludus.sources.producer_worker",
                replies=FromProducer,
                threads=threads,
                needs_run_disk=True,
            )
        )
        context.supervisor.send(NAME, self._order)
        self._workers.listen(self._absorb)

    def _absorb(self, event: Arrived | Lost) -> None:
        if event.worker != NAME:
            return
        supervisor, telemetry = self._context.supervisor, self._context.telemetry
        if isinstance(event, Lost):
            telemetry.event("worker_lost", worker=NAME, reason=event.reason, log_tail=event.log_tail)
            supervisor.send(NAME, self._order)
        elif isinstance(event.message, Produced):
            telemetry.event("producer_ended")
            supervisor.dismiss(NAME)
            self._ended_at = time.monotonic()
