"""Rounds of waiting, training and exporting: when the next begins, and what is carried over to it.

Invariant: the numbers are a function of what had come in when each round began, and all of them are in the checkpoint
(`state`); an update more or less in a round is the loop's to count. A run without `cycle` is one round without an end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ludus.config import CycleConfig
from ludus.errors import LudusError
from ludus.orchestrator import Progress, Workers
from ludus.runs.driver import Controls, CycleStatus
from ludus.sources.async_rollouts import AsyncRollouts
from ludus.sources.protocol import Batch, BatchSource
from ludus.telemetry import Telemetry

MOST_UPDATES = 10**9
MOST_GROWN = 100
"""Rounds after which they grow no longer, so that numbers stay finite."""


class Stopwatch:
    """Seconds, those before a resume included. Read from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before = 0.0
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """So far."""
        since = self._since
        return self._before + (0.0 if since is None else self._clock() - since)

    def set(self, seconds: float, *, is_running: bool) -> None:
        """Begin again from there."""
        self._since = None
        self._before = seconds
        self._since = self._clock() if is_running else None


class Cycle:
    """Where a run is in its rounds. One thread changes it; any may ask for its status."""

    def __init__(self, config: CycleConfig | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self.rounds = 0
        """Rounds that are done."""
        self.version: int | None = None
        """The version that the last of them made."""
        self.is_training = config is None
        """Whether a round is under way; otherwise its data is waited for."""
        self._to_wait = 0 if config is None else config.new_sequences
        self._taken_in = 0
        self._counted_from = 0
        self._training, self._whole = Stopwatch(clock), Stopwatch(clock)
        self._previous_training_s = self._previous_cycle_s = 0.0
        self._whole.set(0.0, is_running=True)

    @property
    def has_rounds(self) -> bool:
        """Whether the run goes in rounds at all."""
        return self._config is not None

    @property
    def new_data(self) -> int:
        """Sequences that have come in since the last round began."""
        return self._taken_in - self._counted_from

    @property
    def missing(self) -> int:
        """Sequences that the next round still waits for."""
        return max(self._to_wait - self.new_data, 0)

    @property
    def updates_of_round(self) -> int | None:
        """Updates of this round, or of the next one between two; None where there are no rounds."""
        if self._config is None:
            return None
        return round(min(self._config.updates * self._config.growth ** min(self.rounds, MOST_GROWN), MOST_UPDATES))

    def updates_left(self, done: int) -> int | None:
        """Updates of this round that are to come, after so many; None where rounds have no end."""
        return None if self.updates_of_round is None else max(self.updates_of_round - done, 1)

    def see(self, taken_in: int) -> None:
        """So many sequences have come in since the start of the run."""
        self._taken_in = taken_in

    def begin_round(self) -> int:
        """Train on what has come in; returns how much that was. What was too much is waited for less next time."""
        used = self.new_data
        if self._config is not None:
            new = self._config.new_sequences
            self._to_wait = max(self._to_wait + new - used, new // 2, 1)
        self._counted_from = self._taken_in
        self.is_training = True
        return used

    @contextmanager
    def training(self) -> Iterator[None]:
        """Count the time of a block as training."""
        self._training.set(self._training.seconds, is_running=True)
        try:
            yield
        finally:
            self._training.set(self._training.seconds, is_running=False)

    def end_round(self, version: int) -> None:
        """The round is over, and this is the version that came of it."""
        if self._config is None:
            return
        self.rounds += 1
        self.version = version
        self.is_training = False
        self._previous_training_s, self._previous_cycle_s = self._training.seconds, self._whole.seconds
        self._training.set(0.0, is_running=False)
        self._whole.set(0.0, is_running=True)

    def status(self, *, updates: int) -> CycleStatus:
        """For people and programs, from any thread; `updates` of this round are done."""
        return CycleStatus(
            cycles=self.rounds,
            new_data=self.new_data,
            data_to_wait=self._to_wait,
            updates=updates,
            updates_to_do=self.updates_of_round or 0,
            training_s=self._training.seconds,
            previous_training_s=self._previous_training_s,
            cycle_s=self._whole.seconds,
            previous_cycle_s=self._previous_cycle_s,
        )

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {
            "rounds": self.rounds,
            "version": self.version,
            "is_training": self.is_training,
            "to_wait": self._to_wait,
            "counted_from": self._counted_from,
            "training_s": self._training.seconds,
            "previous_training_s": self._previous_training_s,
            "cycle_s": self._whole.seconds,
            "previous_cycle_s": self._previous_cycle_s,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint; `see` tells after it how much had come in."""
        self._training.set(float(state["training_s"]), is_running=False)
        self._whole.set(float(state["cycle_s"]), is_running=True)
        self._previous_training_s = float(state["previous_training_s"])
        self._previous_cycle_s = float(state["previous_cycle_s"])
        self.rounds, self._counted_from = int(state["rounds"]), int(state["counted_from"])
        self._taken_in = self._counted_from
        if self._config is not None and state["to_wait"]:
            self.version = None if state["version"] is None else int(state["version"])
            self.is_training, self._to_wait = bool(state["is_training"]), int(state["to_wait"])


if TYPE_CHECKING:
    from ludus.loop import Loop

WAIT_S = 0.1
"""How long to wait between two looks for data."""


@dataclass(slots=True, eq=False)
class CycleSource(BatchSource):
    """Batches of `inner` once there is enough of them.

    Invariant: rows of feeds come in only while there is a checkpoint of this very update. A resume finds the same rows.
    """

    inner: AsyncRollouts
    cycle: Cycle
    controls: Controls
    workers: Workers
    progress: Progress
    telemetry: Telemetry
    looked_at: int = -1
    """The update at which all that was new was taken in."""
    _loop: Loop | None = None

    def bind(self, loop: Loop) -> None:
        """Let the source ask its loop for checkpoints. Once, before `start`: a loop is made around its source."""
        self._loop = loop

    @property
    def loop(self) -> Loop:
        """The loop around this source."""
        if self._loop is None:
            raise LudusError("a CycleSource belongs to a loop: call bind first")
        return self._loop

    @property
    def is_exhausted(self) -> bool:
        """Whether there will never be another batch."""
        return self.inner.is_exhausted

    def start(self) -> None:
        """Start the source behind this one."""
        self.inner.start()

    def next(self) -> Batch | None:
        """A batch, if a round is under way and there is one. If not, new data was taken in or a moment has gone by."""
        cycle = self.cycle
        if not cycle.is_training and not self._begins_round():
            return None
        is_whole = self._takes_all()
        if is_whole:
            batch = self.inner.next_within(cycle.updates_left(self.progress.unpublished))
            if not self.inner.is_dry:
                cycle.see(self.inner.taken_in)
                self.controls.enter("training")
                return batch
            self.loop.commit()
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
        self.cycle.see(self.inner.taken_in)

    def on_published(self) -> None:
        """Pass it on."""
        self.inner.on_published()

    def metrics(self) -> dict[str, float]:
        """Pass it on."""
        return self.inner.metrics()

    def _takes_all(self) -> bool:
        """Take in a part of what is new, where it is time for that; returns whether there is no more of it.

        With rounds, data comes in before a round; else once after each checkpoint.
        """
        has_looked = self.looked_at == self.progress.update and bool(self.inner.in_flight())
        if self.cycle.has_rounds or not self.loop.is_saved or has_looked:
            return True
        is_whole = self.inner.take_in(0)
        if is_whole:
            self.looked_at = self.progress.update
        return is_whole

    def _begins_round(self) -> bool:
        cycle = self.cycle
        is_whole = self.inner.take_in(cycle.missing)
        cycle.see(self.inner.taken_in)
        if not is_whole or (cycle.missing and not self.controls.is_hurried):
            self._idle(is_whole)
            return False
        self.telemetry.event("round_began", round=cycle.rounds + 1, new_sequences=cycle.begin_round())
        return True

    def _idle(self, is_whole: bool) -> None:
        """Look after the workers, and wait a little if nothing more is there."""
        if is_whole:
            self.controls.enter("waiting for data")
        self.workers.serve(WAIT_S if is_whole else 0.0)
