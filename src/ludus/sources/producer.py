"""The program that makes data for the run's loader (`buffer.loader.command`), as the loop sees it.

It is a worker like others: started with the run, ended with it, replaced when it fails, and when it fails too often
(`runtime.max_restarts`) the run fails, with its last lines. One that ends with code 0 has done what it was asked for.
"""

from __future__ import annotations

from ludus.orchestrator.context import RunContext
from ludus.orchestrator.workers import Workers
from ludus.runtime import Arrived, Lost, WorkerSpec
from ludus.sources.producer_worker import FromProducer, Produce, Produced

NAME = "producer"


def start_producer(context: RunContext, workers: Workers) -> None:
    """Start the program that the config names, if it names one."""
    loader = context.config.buffer.loader
    if loader is None or not loader.command:
        return
    order = Produce(command=list(loader.of_run(str(context.run.path)).command))
    supervisor, telemetry = context.supervisor, context.telemetry

    def absorb(event: Arrived | Lost) -> None:
        if event.worker != NAME:
            return
        if isinstance(event, Lost):
            telemetry.event("worker_lost", worker=NAME, reason=event.reason, log_tail=event.log_tail)
            supervisor.send(NAME, order)
        elif isinstance(event.message, Produced):
            telemetry.event("producer_ended")
            supervisor.dismiss(NAME)

    threads = context.config.runtime.threads or 1
    supervisor.start(
        WorkerSpec(name=NAME, module="ludus.sources.producer_worker", replies=FromProducer, threads=threads)
    )
    supervisor.send(NAME, order)
    workers.listen(absorb)
