"""One piece of work before a run begins, done by a worker of its own: told what to do, and told again when it dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.orchestrator.context import RunContext
from ludus.orchestrator.worker_imports import worker_imports
from ludus.runtime import Lost, WorkerSpec

POLL_S = 0.1


def run_one_shot(
    context: RunContext,
    name: str,
    module: str,
    replies: object,
    order: Any,
    is_done: Callable[[Any], bool],
    is_stopping: Callable[[], bool],
) -> bool:
    """Have an order carried out; `is_done` takes each message. Returns False when the run was stopped first.

    There is no deadline of its own: a worker that does not get on is replaced after `runtime.stall_s`, and one that is
    lost too often fails the run.
    """
    runtime = context.config.runtime
    spec = WorkerSpec(
        name=name,
        module=module,
        replies=replies,
        threads=runtime.threads or 1,
        stall_s=runtime.stall_s,
        imports=worker_imports(context.config),
    )
    context.supervisor.start(spec)
    context.supervisor.send(name, order)
    try:
        while not is_stopping():
            for event in context.supervisor.poll(POLL_S):
                if event.worker != name:
                    continue
                if isinstance(event, Lost):
                    context.telemetry.event("worker_lost", worker=name, reason=event.reason, log_tail=event.log_tail)
                    context.supervisor.send(name, order)
                elif is_done(event.message):
                    return True
        return False
    finally:
        context.supervisor.dismiss(name)
