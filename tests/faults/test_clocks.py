"""F30: the wall clock of every process jumps by an hour, back and forth. No deadline fires, and nothing differs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import describe, finish, start

from ludus.storage.jsonl import read_jsonl

JUMPING = """
import random
import time

steady, steady_ns = time.time, time.time_ns
time.time = lambda: steady() + random.choice((-3600, 0, 3600))
time.time_ns = lambda: steady_ns() + random.choice((-3600, 0, 3600)) * 10**9
"""
CONFIG = """
name: clocks
games: [open_spiel:tic_tac_toe]
topology: split
explore: {games_in_flight: 16, workers: 1, deadline_s: 60}
policy: {network: {kind: mlp, hidden: [8]}}
train: {steps: 2000, batch_episodes: 32, minibatch: 64, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}], snapshot_every: 500}
evaluate: {against: [random], games: 4, every: 1000, final_games: 8}
telemetry: {tensorboard: false}
"""


@pytest.mark.slow
def test_clocks_that_jump_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clocks.yaml").write_text(CONFIG)
    steady = start(tmp_path / "clocks.yaml", tmp_path / "steady")
    assert finish(steady)[0] == 0
    (tmp_path / "jumping").mkdir()
    (tmp_path / "jumping" / "sitecustomize.py").write_text(JUMPING)
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'jumping'}{os.pathsep}{before}")
    jumping = start(tmp_path / "clocks.yaml", tmp_path / "run")
    code, said = finish(jumping)
    assert code == 0, said
    events = list(read_jsonl(tmp_path / "run" / "events.jsonl"))
    times = [event["time"] for event in events]
    assert max(times) - min(times) > 3000, "the clock did jump"
    assert {event["event"] for event in events} == {
        event["event"] for event in read_jsonl(tmp_path / "steady" / "events.jsonl")
    }, "no worker was taken for lost or silent"
    whole, found = describe(tmp_path / "steady"), describe(tmp_path / "run")
    for part in ("progress", "files", "league", "episodes"):
        assert found[part] == whole[part], part
