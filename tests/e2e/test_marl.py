"""Several agents: a small run with everything that MAPPO may have, what it leaves behind, and what a resume makes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus import SingleRun, parse_config
from ludus.config import load_config, resolve
from ludus.errors import ConfigError
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef
from ludus.storage.arrow import experiences_from_table
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segment_reader import SegmentReader

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from killing import Moment, describe, run_through

RECURRENT = """
name: recurrent
games: ["pettingzoo:mpe.simple_speaker_listener_v4(max_cycles=6)"]
explore: {games_in_flight: 8, noise: 0.1}
policy: {network: {kind: mlp, hidden: [8], memory: {kind: gru, size: 4, chunk: 4}}}
train: {steps: 960, minibatch: 32, epochs: 2, algorithm: {preset: mappo}}
evaluate: {games: 4, final_games: 4, every: 480}
telemetry: {tensorboard: false, every_s: 0}
"""
MIXED = """
name: mixed
games: ["pettingzoo:mpe.simple_tag_v3(num_good=1,num_adversaries=2,num_obstacles=1,max_cycles=5)"]
explore: {games_in_flight: 6}
policy: {network: {kind: mlp, hidden: [8]}, critic: central}
train: {steps: 180, minibatch: 32, epochs: 1, algorithm: {preset: mappo}}
league: {opponents: [{kind: fixed, players: [random]}]}
evaluate: {against: [random], games: 4, final_games: 4, every: 90}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture(scope="module")
def recurrent_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marl") / "recurrent"
    assert SingleRun(parse_config(RECURRENT, "run.yaml"), path).run_to_end().stage == "done"
    return path


def test_a_cooperative_run_is_measured_by_its_return(recurrent_run: Path) -> None:
    rows = [row for row in read_jsonl(recurrent_run / "metrics.jsonl") if "evaluate/return" in row]
    assert len(rows) == 3
    assert all(row["evaluate/return"] < 0 for row in rows)


def test_its_metrics_are_explained_and_those_that_are_promised_are_there(
    recurrent_run: Path, check_promises: Any
) -> None:
    check_promises("split", recurrent_run)


def test_states_are_recorded_and_memories_are_not(recurrent_run: Path) -> None:
    for _, table in SegmentReader(recurrent_run / "experiences").scan():
        rows = experiences_from_table(table)
        assert rows.steps["state"].shape[1:] == (14,)
        assert "memory" not in rows.steps
        pairs = rows.steps["state"].reshape(len(rows), -1)
        # Both seats of an episode are shown the same states.
        by_episode = {str(name): pairs[rows.sequences["episode"] == name] for name in rows.sequences["episode"]}
        assert all(np.array_equal(both[0], both[1]) for both in by_episode.values())
        assert (~rows.steps["mask"]).any(), "noise is not trained on"


def test_a_published_version_carries_its_scale_and_its_critic(recurrent_run: Path) -> None:
    store = PolicyStore(recurrent_run / "policies")
    newest = store.load(store.versions("main")[-1], PolicyShape)
    assert (newest.shape.critic, newest.shape.state_size, newest.shape.normalises_value) == ("central", 14, True)
    assert newest.weights["value_scale.mean"] < 0
    assert "critic.gru.seen.kernel" in newest.weights


def test_a_policy_that_remembers_can_be_played_against(recurrent_run: Path) -> None:
    from ludus.cli.tables import Table

    run, ref = RunDirectory(recurrent_run), PolicyRef.parse("main@0")
    game = "pettingzoo:mpe.simple_speaker_listener_v4(max_cycles=6)"
    table = Table(run, load_config(run.config), game, ref, seed=0, greedy=True, nodes=1)
    while table.position.acting():
        table.position.act({seat: table.decide(seat) for seat in table.position.acting()})
    assert table.position.returns()[0] < 0
    assert np.abs(table._memories[0]).max() > 0


@pytest.mark.slow
def test_a_killed_run_with_memory_central_critic_and_normalised_values_ends_like_a_whole_one(
    recurrent_run: Path, tmp_path: Path
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(RECURRENT)
    run_through(config, tmp_path / "broken", [Moment(more=3)], seed=1)
    assert describe(tmp_path / "broken") == describe(recurrent_run)


def test_a_run_begins_with_another_ones_weights_if_its_critic_is_the_same(recurrent_run: Path) -> None:
    from ludus.orchestrator.policy_start import find_start

    def start(change: str) -> object:
        text = RECURRENT.replace("policy: {", f"policy: {{start: {recurrent_run}, ").replace("preset: mappo", change)
        return find_start(resolve(parse_config(text, "run.yaml")))

    assert start("preset: mappo")
    with pytest.raises(ConfigError, match="trained with critic: central"):
        start("preset: ippo")
    with pytest.raises(ConfigError, match="value_normalisation: true; write the same"):
        start("preset: mappo}, value_normalisation: false, optimizer: {eps: 1e-5")


@pytest.mark.slow
def test_teams_of_a_mixed_game_are_seated_together(tmp_path: Path) -> None:
    status = SingleRun(parse_config(MIXED, "run.yaml"), tmp_path / "run").run_to_end()
    assert status.stage == "done"
    assert {"evaluate/random/score", "evaluate/random/return"} <= status.metrics.keys()
    for _, table in SegmentReader(tmp_path / "run" / "episodes").scan():
        columns = table.column("policies").to_pylist(), table.column("purpose").to_pylist()
        for names in (names for names, purpose in zip(*columns, strict=True) if purpose == "train"):
            assert names in (["main", "main", "random"], ["random", "random", "main"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("policy: {critic: central}", "policy.critic: a central critic sees what the device's games do not show"),
        ("policy: {network: {kind: mlp, memory: {size: 8}}}", "policy.network.memory: the device's games carry no memory"),
        ("train: {algorithm: {preset: mappo}}", "policy.critic: a central critic sees what"),
        ("policy: {network: {kind: resnet}, critic: own}", "policy.critic: own needs policy.network.kind: mlp"),
        ("policy: {critic: own}\ntrain: {algorithm: {preset: reinforce}}", "policy.critic: has no effect"),
        ("train: {value_normalisation: true, algorithm: {preset: reinforce}}", "train.value_normalisation: has no effect"),
        ("policy: {network: {kind: mlp, memory: {chunk: 512}}}", "policy.network.memory.chunk: 512 decisions are more"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(change: str, message: str) -> None:
    topology = "split" if "chunk" in change else "fused"
    with pytest.raises(ConfigError) as refused:
        resolve(parse_config(f"name: x\ngames: [pgx:tic_tac_toe]\ntopology: {topology}\n{change}\n", "run.yaml"))
    assert any(message in line for line in refused.value.problems)


def test_presets_of_several_agents_choose_the_critic_unless_the_config_does() -> None:
    text = "name: x\ngames: ['pettingzoo:mpe.simple_spread_v3']\ntrain: {{algorithm: {{preset: {}}}}}\n{}"

    def resolved(preset: str, more: str = "") -> tuple[object, ...]:
        config = resolve(parse_config(text.format(preset, more), "run.yaml"))
        return config.topology, config.policy.critic, config.train.value_normalisation, config.train.epochs

    assert resolved("mappo") == ("split", "central", True, 10)
    assert resolved("ippo") == ("split", "own", True, 10)
    assert resolved("ppo") == ("split", "shared", False, 4)
    assert resolved("mappo", "policy: {critic: own}\n") == ("split", "own", True, 10)
