"""The worker processes of a run: one stream of events for the parts that listen, and a worker for one piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ludus.config import RunConfig
from ludus.errors import WorkerError
from ludus.orchestrator.context import RunContext
from ludus.runtime import Arrived, Lost, Supervisor, WorkerSpec
from ludus.runtime.supervisor import MOST_GAP_S

POLL_S = 0.05
IDLE_LIMIT_S = 3600.0
"""Without a message or a tick of any worker for so long, waiting is given up: an answer was lost."""

Listener = Callable[[Arrived | Lost], None]


class Workers:
    """Serves worker events in the loop's thread. Nothing arrives between two calls of `serve`."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._listeners: list[Listener] = []
        self._after: list[Callable[[], None]] = []

    def listen(self, listener: Listener) -> None:
        """Give this listener every event from now on."""
        self._listeners.append(listener)

    def after_events(self, do: Callable[[], None]) -> None:
        """Call this whenever workers have been served, from now on."""
        self._after.append(do)

    def serve(self, timeout_s: float) -> int:
        """Take what the workers bring; wait at most `timeout_s` for it. Returns how many events there were."""
        events = self._supervisor.poll(timeout_s)
        for event in events:
            for listener in self._listeners:
                listener(event)
        for do in self._after:
            do()
        return len(events)

    def wait_until(
        self,
        is_reached: Callable[[], bool],
        meanwhile: Callable[[], None] | None = None,
        *,
        whom: str,
        limit_s: float = IDLE_LIMIT_S,
    ) -> None:
        """Serve the workers until something holds. Dead or hung workers are replaced, so this makes progress.

        Args:
            is_reached: looked at after everything that a worker brings.
            meanwhile: called at least every `POLL_S` seconds.
            whom: how the names of the workers begin that are waited for.
            limit_s: for so long no worker may do anything. Time in which this process is stopped does not count.

        Raises:
            WorkerError: they all live, and none does anything.
        """
        idle_s, looked, ticks = 0.0, time.monotonic(), self._supervisor.ticks
        while not is_reached():
            events = self.serve(POLL_S)
            if meanwhile is not None:
                meanwhile()
            before, looked = looked, time.monotonic()
            idle_s += min(looked - before, MOST_GAP_S)
            if events or self._supervisor.ticks != ticks:
                idle_s, ticks = 0.0, self._supervisor.ticks
            if idle_s > limit_s:
                names = ", ".join(name for name in self._supervisor.ticks if name.startswith(whom)) or whom
                raise WorkerError(f"waited {limit_s:g} s for {names}: alive, but idle; the next start resumes the run")


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
        needs_run_disk=True,
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
