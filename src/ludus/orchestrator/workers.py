"""The worker processes of a run: one stream of events for the parts that listen, and a worker for one piece of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.config import RunConfig
from ludus.orchestrator.context import RunContext
from ludus.runtime import Arrived, Lost, Supervisor, WorkerSpec

POLL_S = 0.05

Listener = Callable[[Arrived | Lost], None]


class Workers:
    """Serves worker events in the loop's thread. Nothing arrives between two calls of `serve`."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Give this listener every event from now on."""
        self._listeners.append(listener)

    def serve(self, timeout_s: float) -> None:
        """Take what the workers bring; wait at most `timeout_s` for it."""
        for event in self._supervisor.poll(timeout_s):
            for listener in self._listeners:
                listener(event)

    def wait_until(self, is_reached: Callable[[], bool], meanwhile: Callable[[], None] | None = None) -> None:
        """Serve the workers until something holds. Dead or hung workers are replaced, so this makes progress."""
        while not is_reached():
            self.serve(POLL_S)
            if meanwhile is not None:
                meanwhile()


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


_WORKERS = ("ludus.explore.worker", "ludus.train.worker", "pandas")
"""pyarrow imports pandas with the first table that it makes, where that is installed."""


def worker_imports(config: RunConfig) -> tuple[str, ...]:
    """Modules for the fork server: none of them starts a thread or a device when it is imported."""
    if config.policy.model is None:
        return (*_WORKERS, "ludus.explore.actors", "ludus.explore.runners.host_runner", "ludus.train.jax_learner")
    return (
        *_WORKERS,
        "ludus.explore.runners.text_building",
        "ludus.inference.local.engine",
        "ludus.train.torch_learner",
    )
