"""What learners report, as the population's own metrics: one place to watch them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.league.schedulers import Assignment
from ludus.telemetry import Telemetry


class LearnerNews:
    """A sink that passes a learner's metrics on under its agent's name, counted in steps of all learners."""

    def __init__(self, telemetry: Telemetry, assignment: Assignment, steps_before: int) -> None:
        self._telemetry = telemetry
        self._agent = assignment.agent
        self._before = steps_before

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Take one metric line."""
        renamed = {f"learner/{self._agent}/{name}": value for name, value in values.items()}
        self._telemetry.metrics(self._before + step, renamed)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Events stay with the learner's run, but for those that somebody should act on."""
        if kind in ("worker_lost", "episode_failed", "learnt_enough"):
            self._telemetry.event(kind, agent=self._agent, **fields)

    def close(self) -> None:
        """The population's telemetry stays open."""
