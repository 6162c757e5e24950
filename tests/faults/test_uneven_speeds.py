"""F27: play is many times faster than training, or slower. Neither waits for good, and staleness keeps its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus import SingleRun, parse_config
from ludus.storage.jsonl import read_jsonl

CONFIG = """
name: uneven
games: [open_spiel:tic_tac_toe]
topology: split
schedule: async
explore: {games_in_flight: 32, workers: 1}
policy: {network: {kind: mlp, hidden: [8]}}
train: {steps: 4000, batch_episodes: 32, minibatch: 64, max_staleness: 1}
evaluate: {against: [], games: 0, final_games: 0}
telemetry: {tensorboard: false, every_s: 0}
"""
SLOW_TRAINING = ("train.epochs=200", "train.minibatch=32")
SLOW_PLAY = ("train.epochs=1", "league.opponents=[{kind: fixed, players: [mcts-1000]}]", "train.steps=1000")


@pytest.mark.slow
@pytest.mark.parametrize("changes", [SLOW_TRAINING, SLOW_PLAY], ids=["training is slow", "play is slow"])
def test_the_slower_side_bounds_the_faster_one(tmp_path: Path, changes: tuple[str, ...]) -> None:
    status = SingleRun(parse_config(CONFIG, "uneven.yaml", changes), tmp_path / "run").run_to_end()
    assert status.stage == "done"
    metrics = list(read_jsonl(tmp_path / "run" / "metrics.jsonl"))
    staleness = [line["train/staleness"] for line in metrics if "train/staleness" in line]
    assert len(staleness) > 3
    assert max(staleness) <= 1.0
    sizes = [line["buffer/size"] for line in metrics if "buffer/size" in line]
    assert max(sizes) <= 32 * 2 * 4, "of two seats and a few batches, however long the other side takes"
    assert sum(line.get("buffer/evicted_unused", 0) for line in metrics) == 0
