"""The explorer processes of a run: they start with the first task, and what they play goes into the rollout sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ludus.orchestrator.context import RunContext
from ludus.orchestrator.dispatcher import Dispatcher
from ludus.orchestrator.endpoint_bill import EndpointBill
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.workers import Workers
from ludus.records import Episode, PolicyRef, Task
from ludus.runtime import Arrived, Lost


class Explorers:
    """Submit tasks; episodes come back through `Workers.serve`."""

    def __init__(
        self,
        context: RunContext,
        workers: Workers,
        sink: RolloutSink,
        *,
        count: int,
        slots: int,
        on_played: Callable[[tuple[Episode, ...]], None] = lambda played: None,
    ) -> None:
        """`count` processes play `slots` tasks each at a time; `on_played` gets training episodes that are on disk."""
        self._context = context
        self._workers = workers
        self._sink = sink
        self._count = count
        self._slots = slots
        self._on_played = on_played
        self._dispatcher: Dispatcher | None = None
        self.bill = EndpointBill(count)
        """What endpoints have cost, over all starts of the run."""
        workers.listen(self._absorb)

    @property
    def running(self) -> int:
        """Tasks submitted that have not come back."""
        return 0 if self._dispatcher is None else self._dispatcher.running

    @property
    def running_for_training(self) -> int:
        """Training tasks among them."""
        return 0 if self._dispatcher is None else self._dispatcher.running_for_training

    def start(self) -> None:
        """Start the processes, so that the first task need not wait for them."""
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(self._context, workers=self._count, slots=self._slots, bill=self.bill)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Have these tasks played."""
        if tasks:
            self.start()
        if self._dispatcher is not None:
            self._dispatcher.submit(tasks)

    def serve(self, timeout_s: float) -> None:
        """Take what comes back."""
        self._workers.serve(timeout_s)

    def versions(self) -> set[PolicyRef]:
        """Policies that tasks in hand are played with."""
        return set() if self._dispatcher is None else self._dispatcher.versions()

    def close(self) -> None:
        """Report what endpoints have cost."""
        if bill := self.bill.metrics():
            self._context.telemetry.event("endpoints", **bill)

    def _absorb(self, event: Arrived | Lost) -> None:
        for delivery in self._dispatcher.absorb(event) if self._dispatcher is not None else ():
            self._on_played(self._sink.take(delivery))
