"""Memory and disk of a run stay flat over 100,000 episodes (`make faults`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMON = """
policy: {network: {kind: mlp, hidden: [16]}}
evaluate: {against: [random], games: 4, final_games: 4}
telemetry: {tensorboard: false}
record: {keep_mb: 8}
"""
FUSED = """
name: memory_fused
games: [pgx:tic_tac_toe]
explore: {games_in_flight: 128}
train: {steps: 3000000, batch_steps: 1024, minibatch: 256, epochs: 1}
"""
SPLIT = """
name: memory_split
games: [open_spiel:tic_tac_toe]
topology: split
schedule: async
explore: {games_in_flight: 128}
train: {steps: 900000, batch_episodes: 256, minibatch: 512, epochs: 1}
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", [FUSED, SPLIT], ids=["fused", "split"])
def test_memory_and_disk_stay_flat_over_a_hundred_thousand_episodes(tmp_path: Path, text: str) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text(text + COMMON)
    script = Path(__file__).with_name("memory_run.py")
    done = subprocess.run(
        [sys.executable, str(script), str(config), str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    marks = [json.loads(line) for line in done.stdout.splitlines()]
    last = marks[-1]["episodes"]
    assert last > 90_000
    early = max(mark["mb"] for mark in marks if 0.2 * last < mark["episodes"] < 0.4 * last)
    late = max(mark["mb"] for mark in marks if mark["episodes"] > 0.8 * last)
    assert late < 1.05 * early + 10, (early, late)
    assert max(mark["disk"] for mark in marks) < 75e6
