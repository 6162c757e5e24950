"""Rounds over a loader that the trainer pulls from: wait for new sequences, admit them, train, and so on.

Invariant: what a round admits is decided once, and travels with the round's first batch. A lost trainer gets that batch
again, so it admits the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.orchestrator import Progress, Workers
from ludus.orchestrator.trainer_client import TrainerClient
from ludus.runs.cycle import WAIT_S, Cycle
from ludus.runs.driver import Controls
from ludus.sources.producer import Producer
from ludus.sources.protocol import Batch
from ludus.sources.row_store import RowStore
from ludus.sources.without_rollouts import PulledRows
from ludus.telemetry import Telemetry

STATE = "loader_rounds"


class LoaderRounds(PulledRows):
    """Pulls in rounds. Sequences that come in during a round are those of the next."""

    def __init__(
        self,
        rows: RowStore,
        learner: TrainerClient,
        cycle: Cycle,
        controls: Controls,
        workers: Workers,
        progress: Progress,
        telemetry: Telemetry,
        producer: Producer,
    ) -> None:
        super().__init__(
            rows,
            in_flight=lambda: learner.in_flight,
            most_in_flight=learner.depth,
            told=learner.loader.metrics,
            produce=producer.start,
        )
        self._learner, self._cycle, self._controls = learner, cycle, controls
        self._workers, self._progress, self._telemetry = workers, progress, telemetry
        self._producer = producer
        self._admitted = 0
        """Sequences that all rounds so far were given."""
        self._uncommitted = 0
        """Those of this round, as long as no update that was trained on them is done."""
        self._to_send = 0

    def next(self) -> Batch | None:
        """A pull, while a round is under way; otherwise None, and a moment has gone by."""
        cycle = self._cycle
        if not cycle.is_training and not self._begins_round():
            return None
        left = cycle.updates_left(self._progress.unpublished)
        if left is not None and self._learner.in_flight >= left:
            return None
        batch = super().next()
        if batch is None:
            return None
        self._controls.enter("training")
        admits, self._to_send = self._to_send, 0
        return Batch(is_pulled=True, admits=admits, validates=left is not None and self._learner.in_flight + 1 == left)

    def commit(self, batch: Batch) -> None:
        """The loader's own state has what was admitted with this batch."""
        if batch.admits:
            self._uncommitted = 0

    def state(self) -> dict[str, Any]:
        """What was admitted so far; the cycle's state is the loop's."""
        return {**super().state(), STATE: {"admitted": self._admitted, "uncommitted": self._uncommitted}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        super().load_state(state)
        found = state.get(STATE, {})
        self._admitted = int(found.get("admitted", 0))
        self._uncommitted = self._to_send = int(found.get("uncommitted", 0))
        self._cycle.see(self._admitted)

    def _begins_round(self) -> bool:
        """Begin a round if there is enough that is new; if not, wait a little."""
        cycle = self._cycle
        if self._learner.in_flight:
            return False
        cycle.see(self._admitted + self._learner.loader.new_sequences)
        has_any = self._admitted or self._learner.loader.new_sequences
        # Nothing more is to come when the program that makes the data is done: waiting would never end.
        goes_on = self._controls.is_hurried or self._producer.is_exhausted
        if cycle.missing and not (goes_on and has_any):
            self._controls.enter("waiting for data")
            self._workers.serve(WAIT_S)
            return False
        self._uncommitted = self._to_send = cycle.begin_round()
        self._admitted += self._to_send
        self._telemetry.event("round_began", round=cycle.rounds + 1, new_sequences=self._to_send)
        return True
