"""Waiting for workers has a bound of its own, counts what they do, and names them when it is given up."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.errors import WorkerError
from ludus.orchestrator.workers import Workers


class FakeSupervisor:
    """Workers that are alive, and do what a test says."""

    def __init__(self) -> None:
        self.ticks, self.polls = {"explorer-0": 0, "explorer-1": 0, "trainer": 0}, 0
        self.ticks_until = 0

    def poll(self, timeout_s: float) -> list[Any]:
        self.polls += 1
        self.ticks = {**self.ticks, "trainer": min(self.polls, self.ticks_until)}
        return []


def test_workers_that_do_nothing_are_given_up_by_name() -> None:
    supervisor: Any = FakeSupervisor()
    with pytest.raises(WorkerError, match="waited 0 s for explorer-0, explorer-1: alive, but idle"):
        Workers(supervisor).wait_until(lambda: False, whom="explorer", limit_s=0.0)
    with pytest.raises(WorkerError, match="for trainer: alive"):
        Workers(supervisor).wait_until(lambda: False, whom="trainer", limit_s=0.0)


def test_a_worker_that_gets_on_is_waited_for() -> None:
    supervisor: Any = FakeSupervisor()
    supervisor.ticks_until = 50
    with pytest.raises(WorkerError):
        Workers(supervisor).wait_until(lambda: False, whom="trainer", limit_s=0.0)
    assert supervisor.polls == 51


def test_what_is_reached_ends_the_wait() -> None:
    supervisor: Any = FakeSupervisor()
    Workers(supervisor).wait_until(lambda: supervisor.polls == 3, whom="trainer", limit_s=3600.0)
    assert supervisor.polls == 3
