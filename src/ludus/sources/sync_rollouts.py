"""Synchronous rollouts: an update trains on exactly the tasks of one batch, in task order.

Batches are issued between updates, so many ahead as `synchronise.offset` says, and played with the version that was
newest then. With `explore.refill` further tasks follow for those of which nothing is left; how many is told by the rows
of the batch alone. With `explore.cut_off` the longest episodes of a batch are given up. The result does not depend on
which explorer finished when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ludus.experience import are_greedy
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.workers import Workers
from ludus.sources.batches_ahead import IssuedBatch, from_json, to_json
from ludus.sources.done_tasks import note_logged_episodes
from ludus.sources.protocol import Batch, BatchSource
from ludus.sources.row_store import RowStore
from ludus.sources.task_issuer import TaskIssuer
from ludus.storage.arrow import episodes_from_table
from ludus.storage.segments import SegmentLog

MOST_FILTERED_BATCHES = 64
"""Batches in a row of which operators may refuse everything before the run stops."""


class SyncRollouts(BatchSource):
    """One batch of tasks for each update."""

    def __init__(
        self,
        context: RunContext,
        rows: RowStore,
        issuer: TaskIssuer,
        workers: Workers,
        progress: Progress,
        episodes: SegmentLog,
    ) -> None:
        self._telemetry = context.telemetry
        self._offset = context.config.synchronise.offset
        self._most_refills = context.config.explore.refill
        self._rows = rows
        self._issuer = issuer
        self._workers = workers
        self._progress = progress
        self._episodes = episodes
        self._ahead: deque[IssuedBatch] = deque()

    def start(self) -> None:
        """Start explorers; play what was issued before the checkpoint and has not been played since."""
        note_logged_episodes(self._episodes, self._issuer.tasks, self._rows.done)
        for _, table in self._episodes.scan() if self._rows.cut_off.is_on else ():
            self._rows.cut_off.note(episodes_from_table(table))
        self._rows.cut_off.forget(self._ahead[0].first if self._ahead else self._progress.next_task)
        self._issuer.explorers.start()
        self._issuer.submit_again({task: seats for batch in self._ahead for task, seats in batch.lineups.items()})

    def next(self) -> Batch:
        """Wait for the oldest batch of tasks; batches of which nothing is left are replaced by others."""
        while len(self._ahead) <= self._offset:
            self._issue()
        while (batch := self._claim(self._refill(self._play()))) is None:
            self._issue()
        return batch

    def commit(self, batch: Batch) -> None:
        """Its rows have been used."""
        self._rows.buffer.commit(batch.claims["rows"])

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Have what was issued ahead played to the end: a run that is continued will train on it, and what there is
        does not depend on who was how fast."""
        end = max((batch.end for batch in self._ahead), default=0)
        self._wait_until(lambda: self._rows.done.before >= end or is_stopping())
        return self._rows.done.before >= end

    def state(self) -> dict[str, Any]:
        """Rows, and the line-ups of tasks that are issued and not played."""
        return {**self._rows.state(), "issued": [to_json(batch, self._rows.done) for batch in self._ahead]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._rows.load_state(state)
        self._ahead = deque(map(from_json, state.get("issued", ())))

    def on_published(self) -> None:
        """Old segments can go now."""
        self._rows.trim()
        self._rows.write_refused()

    def metrics(self) -> dict[str, float]:
        """Of play and of the buffer."""
        return {**self._rows.metrics(), "queue/episodes_in_flight": float(self._issuer.explorers.running)}

    def _issue(self, count: int = 0) -> None:
        first, published = self._progress.next_task, self._progress.update - self._progress.unpublished
        tasks = self._issuer.issue(count or self._rows.batch_episodes)
        lineups = {task.id: task.seats for task in tasks}
        self._ahead.append(IssuedBatch(first=first, end=self._progress.next_task, published=published, lineups=lineups))

    def _play(self) -> IssuedBatch:
        """Wait until the oldest batch has been played, and take it."""
        end = self._ahead[0].end
        with self._telemetry.room("explore"):
            self._wait_until(lambda: self._rows.done.before >= end)
        self._issuer.tasks.settle(before=end)
        self._issuer.explorers.limit_steps(range(self._ahead[0].first, end), None)
        self._rows.cut_off.forget(end)
        return self._ahead.popleft()

    def _wait_until(self, is_reached: Callable[[], bool]) -> None:
        """Serve the workers, and cut stragglers off; what came back last may be one, too."""
        self._workers.wait_until(is_reached, self._meanwhile, whom="explorer")
        self._cut_off()

    def _meanwhile(self) -> None:
        self._rows.check_usable()
        self._cut_off()

    def _cut_off(self) -> None:
        """Give up what is longer than those that are enough, and have explorers give up what becomes so."""
        cut_off, explorers = self._rows.cut_off, self._issuer.explorers
        for batch in self._ahead if cut_off.is_on else ():
            tasks = range(batch.first, batch.end)
            self._issuer.give_up(cut_off.stragglers(tasks, explorers.cuts.given_up))
            explorers.limit_steps(tasks, cut_off.bound(tasks))

    def _refill(self, batch: IssuedBatch) -> IssuedBatch:
        """The batch with further tasks for those of which nothing is left; whole groups, up to the bound."""
        size, sink = self._rows.batch_episodes, self._rows.sink
        bound, enough = batch.end + self._most_refills * size, self._rows.cut_off.enough(size)
        while batch.end < bound and (missing := enough - self._kept(batch)) > 0:
            self._issue(min(sink.to_begin(batch.end, missing), bound - batch.end))
            batch = replace(batch, end=self._play().end)
        return batch

    def _kept(self, batch: IssuedBatch) -> int:
        """Tasks of the batch that there is something to learn from."""
        claim = self._rows.buffer.claim_tasks(batch.first, batch.end - batch.first)
        rows = self._rows.buffer.read(claim)
        self._rows.buffer.abandon(claim)
        return len(np.unique(rows.sequences["task"])) if len(rows) else 0

    def _claim(self, batch: IssuedBatch) -> Batch | None:
        """All rows of the batch's tasks, in task order; None when nothing of them can be trained on."""
        buffer, counts, tasks = self._rows.buffer, self._rows.sink.counts, batch.end - batch.first
        claim = buffer.claim_tasks(batch.first, tasks, version=self._progress.version)
        rows = buffer.read(claim)
        if not are_greedy(rows).all():
            metrics = {"train/updates_behind": float(self._progress.update - batch.published)}
            if self._most_refills:
                metrics["explore/refilled"] = float(tasks - self._rows.batch_episodes)
            return Batch(experiences=rows, claims={"rows": claim}, staleness=claim.staleness, metrics=metrics)
        buffer.abandon(claim)
        # Of batches that are played ahead an episode may have failed, which tells nothing of this batch.
        is_fruitless = counts.fruitless >= (tasks if self._offset else 1)
        if is_fruitless or counts.filtered_away > MOST_FILTERED_BATCHES * tasks:
            raise self._rows.nothing_usable(max(counts.fruitless, counts.filtered_away))
        return None
