"""F36: explorers and trainers that are stopped (SIGSTOP) are named, then replaced; the run ends as if nothing were."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ludus import SingleRun, parse_config
from ludus.storage.atomic import directory_hashes
from ludus.storage.jsonl import read_jsonl

TEXT = """
name: stopped
games: [open_spiel:tic_tac_toe]
topology: split
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 16, workers: 1}
train: {steps: 1000, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {snapshot_every: 500}
evaluate: {against: [random], games: 2, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


def make(run: Path) -> SingleRun:
    return SingleRun(parse_config(TEXT, "stopped.yaml"), run)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["explorer-0", "trainer"])
def test_a_stopped_worker_is_named_and_replaced_and_costs_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.runtime.signs_of_life.FROZEN_S", 6.0)
    unbroken = make(tmp_path / "unbroken")
    assert unbroken.run_to_end().stage == "done"
    loop = make(tmp_path / "run")
    loop.start()
    while loop.status().update < 1:
        assert not loop.wait(0.05).is_over
    context = loop._context
    assert context is not None
    os.kill(context.supervisor.process(name).pid, signal.SIGSTOP)
    while loop.status().silent_workers != (name,):
        assert not loop.wait(0.05).is_over
    assert loop.wait().stage == "done"
    events = list(read_jsonl(tmp_path / "run" / "events.jsonl"))
    assert [event["worker"] for event in events if event["event"] == "worker_silent"] == [name]
    assert "no sign of life" in next(event["reason"] for event in events if event["event"] == "worker_lost")
    assert directory_hashes(loop.run.policies) == directory_hashes(unbroken.run.policies)
