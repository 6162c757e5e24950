"""What a worker's pulse and the kernel tell of it: whether it gets on with its work, and whether it lives at all.

A worker that computes, compiles or waits for an answer beats all the same; one that is stopped or frozen does not. So a
silent worker can be named within seconds, and is not given the time that a start or a long computation may take.
"""

from __future__ import annotations

from ludus.runtime.process import WorkerProcess

SILENT_S = 4.0
"""Without a beat, a tick or CPU time for so long, a worker gives no sign of life."""
FROZEN_S = 60.0
"""A silent worker is replaced after so long, or after its own `stall_s` if that is less."""
START_GRACE_S = 300.0
"""A worker may take that long until its first tick: it may be importing or compiling."""


class SignsOfLife:
    """Of one process. Times are the supervisor's."""

    def __init__(self, worker: WorkerProcess, now: float) -> None:
        self._worker = worker
        self._waits = self._ticks = self._beats = 0  # what a quick worker has ticked before this counts, too
        self._cpu_s: float | None = None
        self._progress, self._life = now, now
        self._owes = False
        self._has_started = False
        self.is_told = False
        """Whether people know that it is silent."""

    def expect_answer(self, now: float) -> None:
        """It was sent something. It may still call itself busy with what it has just answered."""
        if not self._owes:
            self._owes = True
            if not self._worker.pulse.is_busy:
                self._progress = now

    def hear(self, now: float) -> None:
        """It has sent something. Without this, a worker that took long to begin would count as hung right then."""
        self._owes, self._progress, self._life = False, now, now

    def look(self, now: float) -> None:
        """Take in what has changed since the last look."""
        pulse = self._worker.pulse
        if pulse.ticks != self._ticks:
            self._ticks, self._has_started = pulse.ticks, True
            self.hear(now)
        elif pulse.waits != self._waits:
            self._waits = pulse.waits  # its start, which may take long, begins when it has a place
            self._progress = self._life = now
        elif not (pulse.is_busy or self._owes):
            self._progress = now
        if pulse.beats != self._beats or not pulse.beats:
            self._beats, self._life = pulse.beats, now
        elif now - self._life > SILENT_S / 2 and (used := self._worker.process.cpu_s()) != self._cpu_s:
            # A call that keeps every other thread out (of a game, say) beats only when it is done, but computes.
            self._cpu_s, self._life = used, now

    def silence_s(self, now: float) -> float:
        """How long there has been no sign of life; 0 while there are some."""
        return now - self._life if now - self._life > SILENT_S else 0.0

    @property
    def replaced_after_s(self) -> float:
        """The silence after which the worker is replaced. People are told before."""
        return max(min(self._worker.spec.stall_s, FROZEN_S), SILENT_S + 1.0)

    def reason_to_replace(self, now: float) -> str:
        """Why it counts as hung; nothing while it does not."""
        patience = self._worker.spec.stall_s if self._has_started else max(self._worker.spec.stall_s, START_GRACE_S)
        silence_s, is_stuck = self.silence_s(now), now - self._progress > patience
        if silence_s > self.replaced_after_s or (silence_s and is_stuck):
            return f"gave no sign of life for {silence_s:.0f} s"
        return f"made no progress for {patience:g} s" if is_stuck else ""
