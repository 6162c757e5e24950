"""Learners of a population that train at the same time: all are started, waited for and stopped together."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ludus.runs.controls import Controls
from ludus.runs.driver import Status
from ludus.runs.single import SingleRun
from ludus.telemetry import RoomReading, added_up

log = logging.getLogger(__name__)


class LearnerGroup:
    """The runs that are live now. Any thread may ask for their status."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self._live: dict[str, SingleRun] = {}
        self._done: dict[str, RoomReading] = {}

    @property
    def names(self) -> list[str]:
        """Who learns now."""
        return list(self._live)

    def statuses(self) -> list[Status]:
        """Of those who learn now."""
        return [run.status() for run in list(self._live.values())]

    def room_readings(self, own: Mapping[str, RoomReading]) -> dict[str, RoomReading]:
        """What each room has done since this start: `own`, and that of all learners."""
        return added_up([self._done, dict(own), *(run.room_readings() for run in list(self._live.values()))])

    def checkpoint(self, timeout_s: float) -> None:
        """Save the state of everybody who learns."""
        for run in list(self._live.values()):
            run.checkpoint(timeout_s)

    def pass_on(self) -> None:
        """Ask of everybody who learns what was asked of the population."""
        for run in list(self._live.values()):
            self._controls.pass_on(run)

    def run(self, learners: Mapping[str, SingleRun]) -> None:
        """Run learners to the end of their parts, all at once; the first failure ends the others."""
        self._live = dict(learners)
        try:
            for run in learners.values():
                run.start()
                self._controls.pass_on(run)
            for run in learners.values():
                run.wait()
        finally:
            self._end()

    def _end(self) -> None:
        """Nobody learns on: after a failure the others stop, too, and leave a state to resume from."""
        for run in self._live.values():
            run.stop()
        for name, run in self._live.items():
            try:
                run.wait()
            except Exception as error:
                log.warning("learner %s failed: %s", name, error)
        self._done = self.room_readings({})
        self._live = {}
