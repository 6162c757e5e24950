"""Trainers on several nodes are replaced together."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ludus import parse_config
from ludus.config import resolve
from ludus.orchestrator.trainer_group import NAME, TrainerGroup
from ludus.runtime import Lost, Supervisor

CONFIG = """
name: trainers
games: [open_spiel:tic_tac_toe]
topology: split
policy: {network: {kind: mlp, hidden: [8]}}
train: {trainers: 2, steps: 100, minibatch: 32}
runtime: ray
"""
TRAINERS = (NAME, f"{NAME}-1")


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """Of processes of this machine."""
    made = Supervisor(tmp_path, max_restarts=5)
    yield made
    made.stop()


def starts(supervisor: Supervisor) -> dict[str, int]:
    return {each.name: each.starts for each in supervisor.read()}


def kill(supervisor: Supervisor, name: str) -> None:
    process: Any = supervisor.process(name)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30.0)


def losses(supervisor: Supervisor) -> list[Lost]:
    """The next that are told at once."""
    end = time.monotonic() + 30.0
    while time.monotonic() < end:
        if events := supervisor.poll(0.05):
            return [event for event in events if isinstance(event, Lost)]
    raise AssertionError("nobody was lost")


def test_trainers_that_are_lost_at_once_are_replaced_once(supervisor: Supervisor, tmp_path: Path) -> None:
    config = resolve(parse_config(CONFIG, "run.yaml"))
    context: Any = SimpleNamespace(config=config, supervisor=supervisor, run=tmp_path)
    group = TrainerGroup(context)
    group.start()
    assert starts(supervisor) == dict.fromkeys(TRAINERS, 1)
    for name in TRAINERS:
        kill(supervisor, name)

    both = losses(supervisor)

    assert sorted(lost.worker for lost in both) == sorted(TRAINERS)
    assert [group.replace(lost) for lost in both] == [True, False]
    assert starts(supervisor) == {both[0].worker: 2, both[1].worker: 3}
    kill(supervisor, TRAINERS[1])
    (lost,) = losses(supervisor)
    assert group.replace(lost)
