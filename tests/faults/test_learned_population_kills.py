"""A population of learners that is killed in mid-generation comes to the same table, meta-strategy and next task."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import Moment, run_through, run_with_kills

from ludus.policies import PolicyStore
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl

CONFIG = """
name: killed
games: [open_spiel:kuhn_poker]
topology: fused
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 32}
train: {steps: 40_000, batch_steps: 512, minibatch: 512, epochs: 1}
checkpoint: {every: 5}
telemetry: {tensorboard: false}
population: {oracle: learned, stop: {generations: 3, nash_conv: null}}
"""

LEAGUE = """
name: killed
games: [open_spiel:kuhn_poker]
topology: fused
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 32}
train: {steps: 20_000, batch_steps: 512, minibatch: 512, epochs: 1}
checkpoint: {every: 5}
telemetry: {tensorboard: false}
population:
  {oracle: learned, scheduler: league, payoffs: {games: 10, extra: 6}, league: {slice_steps: 5000}, stop: {nash_conv: null}}
"""


def write(tmp_path: Path, text: str = CONFIG) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def described(run: Path) -> dict[str, Any]:
    newest = CheckpointStore(run / "checkpoints", keep=3).latest(strict=True)
    assert newest is not None
    state: dict[str, Any] = json.loads(json.dumps(newest.state))
    state["population"].pop("cpu_s")
    for entry in state["population"]["history"]:
        entry["metrics"].pop("psro/cpu_s")
    store = PolicyStore(run / "policies")
    hashes = {str(ref): store.load(ref).weights_hash for name in store.names() for ref in store.versions(name)}
    return {"state": state, "weights": hashes}


def assignments(run: Path) -> dict[tuple[str, int], Any]:
    """What every learner was given in every generation; each must always have been the same."""
    given: dict[tuple[str, int], Any] = {}
    for event in read_jsonl(run / "events.jsonl"):
        if event["event"] == "assignment":
            task = {key: value for key, value in event.items() if key != "time"}
            assert given.setdefault((event["learner"], event["generation"]), task) == task
    return given


def check_same(tmp_path: Path, config: Path) -> None:
    assert run_with_kills(config, tmp_path / "whole", kills=0, longest_s=0.0, seed=0) == 0
    assert described(tmp_path / "broken") == described(tmp_path / "whole")
    assert assignments(tmp_path / "broken") == assignments(tmp_path / "whole")


@pytest.mark.slow
def test_a_population_killed_in_mid_generation_comes_to_the_same(tmp_path: Path) -> None:
    config = write(tmp_path, CONFIG.replace("40_000", "10_000"))
    run_through(config, tmp_path / "broken", [Moment(event="assignment", more=2, within_s=0.4)], seed=4)
    check_same(tmp_path, config)


@pytest.mark.slow
def test_twelve_kills_of_a_population_change_nothing(tmp_path: Path) -> None:
    config = write(tmp_path)
    config.write_text(CONFIG.replace("generations: 3", "generations: 8"))
    assert run_with_kills(config, tmp_path / "broken", kills=12, longest_s=1.5, seed=5) > 3
    check_same(tmp_path, config)


@pytest.mark.slow
def test_kills_of_a_league_change_nothing(tmp_path: Path) -> None:
    config = write(tmp_path, LEAGUE)
    moments = [
        Moment(event="assignment", more=2, within_s=2.0),
        Moment(event="joined", more=2, within_s=1.0),
        Moment(event="frozen", more=1, within_s=1.0),
        Moment(event="assignment", more=1, within_s=4.0),
    ]
    run_through(config, tmp_path / "broken", moments, seed=6)
    check_same(tmp_path, config)
