"""Metrics of updates, at most once in `telemetry.every_s` seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

from ludus.orchestrator.milestones import Milestones
from ludus.orchestrator.progress import UpdateReport
from ludus.telemetry import Telemetry


class Reporter:
    """Writes what updates did; what lies between two reports is not written."""

    def __init__(self, telemetry: Telemetry, milestones: Milestones) -> None:
        self._telemetry = telemetry
        self._milestones = milestones
        self._reported = (time.monotonic(), 0)

    def restart(self) -> None:
        """Measure speed from now on."""
        self._reported = (time.monotonic(), self._milestones.progress.steps)

    def report(self, update: UpdateReport, more: Callable[[], dict[str, float]]) -> None:
        """Write the metrics of an update and those that `more` gives, if it is time."""
        now, steps = time.monotonic(), self._milestones.progress.steps
        if now - self._reported[0] < self._milestones.config.telemetry.every_s:
            return
        rate = (steps - self._reported[1]) / (now - self._reported[0])
        self._reported = (now, steps)
        times = self._telemetry.take_room_times()
        self._telemetry.metrics(steps, {**update.metrics, **more(), "loop/steps_per_s": rate, **times})
