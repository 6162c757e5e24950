"""A game and a taskset in one run, each with its own settings: killed and resumed, it ends as the unbroken one."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import RUN, TRAINER, Moment, describe, finish, run_through, start

from ludus.lm.tiny_model import make_tiny_model
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.segment_reader import SegmentReader

CONFIG = """
name: mixed
seed: 5
games:
  - {key: "open_spiel:tic_tac_toe", prompt: {template: bare}, sampling: {max_tokens: 2}}
tasks:
  - {path: "ludus/arithmetic?digits=1&count=60", name: sums, order: adaptive, rewards: [{kind: exact}], sampling: {temperature: 0.8}}
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 8, group: 2, sampling: {max_tokens: 3}}
train: {steps: 200, batch_episodes: 8, minibatch: 16, algorithm: {preset: grpo}}
league: {opponents: [{kind: mirror}, {kind: fixed, players: [random]}]}
evaluate: {every: 100, games: 2, final_games: 2, tasks: [{path: "ludus/arithmetic?digits=1&count=4", split: test, name: held_out, rewards: [{kind: exact}]}]}
telemetry: {tensorboard: false, every_s: 0}
runtime: {max_restarts: 1000}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


def experience(run: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Every verified sequence by its episode and seat."""
    return {
        (row["episode"], row["seat"]): (row["task"], row["game"], row["final_reward"], row["action"], row["logp"])
        for _, table in SegmentReader(run / "experiences").scan()
        for row in table.to_pylist()
    }


@pytest.mark.slow
def test_a_killed_run_of_games_and_tasks_ends_as_the_unbroken_one(tmp_path: Path, model: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(CONFIG.replace("MODEL", str(model)))
    run_through(config, tmp_path / "run", [Moment(who=TRAINER, more=2), Moment(who=RUN, more=2)], seed=1)
    code, error = finish(start(config, tmp_path / "whole"))
    assert code == 0, error
    found, expected = describe(tmp_path / "run"), describe(tmp_path / "whole")
    for part in ("progress", "files", "league", "episodes"):
        assert found[part] == expected[part], part
    rows = experience(tmp_path / "run")
    assert rows == experience(tmp_path / "whole")
    assert {game for _, game, *_ in rows.values()} == {"open_spiel:tic_tac_toe", "tasks:sums"}
    states = [CheckpointStore(tmp_path / run / "checkpoints", keep=2).latest(strict=True) for run in ("run", "whole")]
    assert states[0] is not None
    assert states[1] is not None
    assert states[0].state["tasks"] == states[1].state["tasks"]
    assert states[0].state["tasks"]["tasks"]["orders"]["sums"]["groups"] > 0, "the order has learnt from attempts"
