"""The explorer processes of a run: they start with the first task, and what they play goes into the rollout sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ludus.orchestrator.context import RunContext
from ludus.orchestrator.dispatcher import Dispatcher
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.worker_metrics import WorkerMetrics
from ludus.orchestrator.workers import Workers
from ludus.records import Episode, PolicyRef
from ludus.runtime import Arrived, Lost


class Explorers(Dispatcher):
    """Submit tasks; episodes come back through `Workers.serve`."""

    def __init__(
        self,
        context: RunContext,
        workers: Workers,
        sink: RolloutSink,
        *,
        count: int,
        slots: int | None = None,
        on_played: Callable[[tuple[Episode, ...]], None] = lambda played: None,
        repair: Callable[[PolicyRef], bool] = lambda ref: False,
    ) -> None:
        """`count` processes play `slots` tasks each at a time, or share `explore.games_in_flight`.

        `on_played` gets training episodes that are on disk; `repair` makes a damaged version usable if it can.
        """
        slots = slots or -(-context.config.explore.games_in_flight // count)
        most = context.config.explore.most_workers if count == context.config.explore.workers else count
        super().__init__(context, workers=count, slots=slots, most_workers=most, repair=repair)
        self._sink = sink
        self._on_played = on_played
        self._worker_metrics = WorkerMetrics(context.supervisor, context.launcher)
        self.serve = workers.serve
        """Take what comes back; wait at most so many seconds for it."""
        workers.listen(self._take)

    def give_up(self, tasks: Sequence[int]) -> None:
        """Training tasks that nobody waits for: they are not played on, and what came back of them goes."""
        self.cancel(tasks)
        self._sink.forget(tasks)
        self._context.telemetry.event("cut_off", tasks=list(tasks))

    def close(self) -> None:
        """Report what endpoints have cost."""
        if bill := self.bill.metrics():
            self._context.telemetry.event("endpoints", **bill)

    def take_metrics(self) -> dict[str, float]:
        """What they have done; where they play for training, also how fast they were since the last call."""
        work = self.work.take_metrics() if self._context.config.topology == "split" else {}
        late = {"explore/cut_off_late": float(self.cuts.late)} if self._context.config.explore.cut_off < 1 else {}
        workers = self._worker_metrics.take(requeued=self.work.requeued, late=self.cuts.late)
        return {**self.bill.metrics(), **work, **late, **workers}

    def _take(self, event: Arrived | Lost) -> None:
        for delivery in self.absorb(event):
            self._on_played(self._sink.take(delivery))
