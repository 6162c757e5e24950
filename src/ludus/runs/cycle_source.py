"""A source that waits: for the data of the next round (`cycle`), or for what other runs bring (`buffer.feeds`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ludus.orchestrator import Progress, Workers
from ludus.runs.controls import Controls
from ludus.runs.cycle import Cycle
from ludus.sources.async_rollouts import AsyncRollouts
from ludus.sources.protocol import Batch, BatchSource
from ludus.telemetry import Telemetry

WAIT_S = 0.1
"""How long to wait between two looks for data."""


class Saves(Protocol):
    """What saves checkpoints: the loop."""

    @property
    def is_saved(self) -> bool:
        """Whether there is a checkpoint of this very update."""
        ...

    def commit(self) -> None:
        """Save a checkpoint of this update."""
        ...


class CycleSource(BatchSource):
    """Batches of `inner` once there is enough of them.

    Invariant: rows of feeds come in only while there is a checkpoint of this very update. A resume finds the same rows.
    """

    def __init__(
        self,
        inner: AsyncRollouts,
        cycle: Cycle,
        controls: Controls,
        workers: Workers,
        progress: Progress,
        telemetry: Telemetry,
    ) -> None:
        self.inner = inner
        self.loop: Saves | None = None
        """Set once, when there is a loop around this source."""
        self._cycle = cycle
        self._controls = controls
        self._workers = workers
        self._progress = progress
        self._telemetry = telemetry
        self._looked_at = -1

    @property
    def is_exhausted(self) -> bool:
        """Whether there will never be another batch."""
        return self.inner.is_exhausted

    def start(self) -> None:
        """Start the source behind this one."""
        self.inner.start()

    def next(self) -> Batch | None:
        """A batch, if a round is under way and there is one. If not, new data was taken in or a moment has gone by."""
        cycle = self._cycle
        if not cycle.is_training and not self._begins_round():
            return None
        is_whole = self._takes_all()
        if is_whole:
            batch = self.inner.next(cycle.updates_left(self._progress.unpublished))
            if not self.inner.is_dry:
                cycle.see(self.inner.taken_in)
                self._controls.enter("training")
                return batch
            self._saves.commit()
            is_whole = self.inner.take_in(0)
        self._idle(is_whole)
        return None

    def commit(self, batch: Batch) -> None:
        """Pass it on."""
        self.inner.commit(batch)

    def state(self) -> dict[str, Any]:
        """That of the source behind this one; the cycle's is the loop's."""
        return self.inner.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self.inner.load_state(state)
        self._cycle.see(self.inner.taken_in)

    def on_published(self) -> None:
        """Pass it on."""
        self.inner.on_published()

    def metrics(self) -> dict[str, float]:
        """Pass it on."""
        return self.inner.metrics()

    @property
    def _saves(self) -> Saves:
        if self.loop is None:
            raise RuntimeError("this source has no loop yet")
        return self.loop

    def _takes_all(self) -> bool:
        """Take in a part of what is new, where it is time for that; returns whether there is no more of it.

        With rounds, data comes in before a round; else once after each checkpoint.
        """
        has_looked = self._looked_at == self._progress.update and bool(self.inner.in_flight())
        if self._cycle.has_rounds or not self._saves.is_saved or has_looked:
            return True
        is_whole = self.inner.take_in(0)
        if is_whole:
            self._looked_at = self._progress.update
        return is_whole

    def _begins_round(self) -> bool:
        cycle = self._cycle
        is_whole = self.inner.take_in(cycle.missing)
        cycle.see(self.inner.taken_in)
        if not is_whole or (cycle.missing and not self._controls.is_hurried):
            self._idle(is_whole)
            return False
        self._telemetry.event("round_began", round=cycle.rounds + 1, new_sequences=cycle.begin_round())
        return True

    def _idle(self, is_whole: bool) -> None:
        """Look after the workers, and wait a little if nothing more is there."""
        if is_whole:
            self._controls.enter("waiting for data")
        self._workers.serve(WAIT_S if is_whole else 0.0)
