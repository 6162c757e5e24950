"""Asynchronous rollouts: explorers and trainer work at once, bounded by the buffer's limits and `train.max_staleness`.

Without an issuer nothing is played (mode train): batches are claimed from what the buffer has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ludus.experience import are_greedy
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.dispatcher import TASKS_PER_SLOT
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.run_store import RunStore
from ludus.orchestrator.workers import Workers
from ludus.records import derive_seed
from ludus.sources.done_tasks import note_logged_episodes, note_logged_rows
from ludus.sources.protocol import Batch, BatchSource
from ludus.sources.row_store import RowStore
from ludus.sources.task_issuer import TaskIssuer


class AsyncRollouts(BatchSource):
    """Batches claimed from the replay buffer while explorers fill it."""

    def __init__(
        self,
        context: RunContext,
        rows: RowStore,
        issuer: TaskIssuer,
        progress: Progress,
        store: RunStore,
        *,
        in_flight: Callable[[], int],
        most_in_flight: int,
        explores: bool = True,
    ) -> None:
        """`in_flight` says how many batches the learner has in hand; it never gets more than `most_in_flight`."""
        self._config = context.config
        self._rows = rows
        self._issuer = issuer
        self._progress = progress
        self._episodes = store.episodes
        self.in_flight = in_flight
        self._most_in_flight = most_in_flight
        self._explores = explores
        self._claimed = 0
        self.is_dry = False
        """Whether the last `next` found nothing to claim and nothing in flight."""

    @property
    def is_exhausted(self) -> bool:
        """Only training: the buffer is used up."""
        return self.is_dry and not self._explores

    @property
    def taken_in(self) -> int:
        """Sequences that have come into the buffer since the start of the run."""
        return self._rows.buffer.counters["inserted"]

    def start(self) -> None:
        """Start explorers; play what was issued before the checkpoint and has not been played since."""
        note_logged_episodes(self._episodes, self._issuer.tasks, self._rows.done)
        if self._config.schedule == "async":
            note_logged_rows(self._rows.log, self._issuer.tasks, self._rows.done, self._rows.sink.refused_tasks())
        self._claimed = self._progress.update
        if self._explores:
            self._issuer.explorers.start()
            self._issuer.submit(self._rows.done.missing(self._rows.done.before, self._progress.next_task))

    def next(self) -> Batch | None:
        """Claim a batch if there is one and the learner has room."""
        return self.next_within(self._most_in_flight)

    def next_within(self, most: int | None) -> Batch | None:
        """The same, if the learner has fewer than `most` batches in hand; None: as many as it takes."""
        self._explore()
        self._rows.check_usable()
        batch = self._claim() if self.in_flight() < min(most or self._most_in_flight, self._most_in_flight) else None
        self.is_dry = batch is None and not self.in_flight()
        return batch

    def take_in(self, wanted: int) -> bool:
        """Have at least so many more sequences played; returns whether there is no more to take in now."""
        self._rows.check_usable()
        self._explore(-(-wanted // self._rows.seats))
        return True

    def commit(self, batch: Batch) -> None:
        """Its rows have been used."""
        self._rows.buffer.commit(batch.claims["rows"])

    def state(self) -> dict[str, Any]:
        """Rows and tasks."""
        if self._config.schedule == "async":
            self._issuer.tasks.settle()
        return {**self._rows.state(), "issued": []}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._rows.load_state(state)

    def on_published(self) -> None:
        """Old segments can go now."""
        self._rows.trim()
        self._rows.write_refused()

    def metrics(self) -> dict[str, float]:
        """Of play and of the buffer."""
        return {**self._rows.metrics(), "queue/episodes_in_flight": float(self._issuer.explorers.running)}

    def _explore(self, episodes: int = 0) -> None:
        """Begin what the buffer's limits allow; at least so many episodes are under way then."""
        if not self._explores:
            return
        self._cut_off()
        sink = self._rows.sink
        running = self._issuer.explorers.running_for_training + sink.waiting
        allowed = self._rows.buffer.may_explore(running, unpublished=self._progress.unpublished)
        if count := sink.to_begin(self._progress.next_task, max(allowed, episodes - running)):
            self._issuer.issue(count)

    def _cut_off(self) -> None:
        """Give up the stragglers among every batch of tasks that was issued whole; others can be begun instead."""
        size, done, cut_off = self._rows.batch_episodes, self._rows.done, self._rows.cut_off
        oldest = done.before // size * size
        for first in range(oldest, self._progress.next_task - size + 1, size) if cut_off.is_on else ():
            self._issuer.give_up(cut_off.late(range(first, first + size), done))

    def _claim(self) -> Batch | None:
        buffer = self._rows.buffer
        while True:
            seed = derive_seed(self._config.seed, "claim", self._claimed) % 2**32
            claim = buffer.claim(self._progress.version, seed=seed)
            if claim is None:
                return None
            rows = buffer.read(claim)
            if not are_greedy(rows).all():
                self._claimed += 1
                return Batch(experiences=rows, claims={"rows": claim}, staleness=claim.staleness)
            buffer.commit(claim)  # all that was to be compared with them is gone


class ExploreOnly(AsyncRollouts):
    """Mode explore: an update is a batch of episodes. Plays until the buffer is full; never claims."""

    def __init__(self, workers: Workers, *parts: Any) -> None:
        """`parts` are those of `AsyncRollouts`."""
        super().__init__(*parts, in_flight=lambda: 0, most_in_flight=0)
        self._workers = workers

    @property
    def is_exhausted(self) -> bool:
        """Whether the buffer is full."""
        buffer = self._rows.buffer
        return len(buffer) >= buffer.limits.capacity

    def next(self) -> Batch:
        """Wait for one batch of episodes."""
        counts, episodes = self._rows.sink.counts, self._rows.batch_episodes
        goal, steps = counts.training_episodes + episodes, counts.training_steps
        self._workers.wait_until(
            lambda: counts.training_episodes >= goal or self.is_exhausted,
            self._keep_busy,
            whom="explorer",
        )
        return Batch(explored=(counts.training_steps - steps, episodes))

    def commit(self, batch: Batch) -> None:
        """Nothing was claimed."""

    def _keep_busy(self) -> None:
        self._rows.check_usable()
        self._cut_off()
        wanted = self._config.explore.games_in_flight * TASKS_PER_SLOT - self._issuer.explorers.running_for_training
        if wanted > 0:
            self._issuer.issue(wanted)
