"""What nodes may have of this machine: what the config names, by what it calls it, and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.config import LanguageModelConfig, LoraConfig, MlpConfig, build_config, dump_config, resolve
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.orchestrator.node_needs import NodeNeeds, find_needs
from ludus.orchestrator.policy_start import find_start, policy_shape
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.run_directory import RunDirectory


@pytest.fixture
def theirs(tmp_path: Path) -> RunDirectory:
    """Another run, whose policy stands on a model that a warm start made."""
    run = RunDirectory(tmp_path / "theirs")
    run.prepare()
    run.create(dump_config(build_config({"name": "y", "games": ["open_spiel:tic_tac_toe"], **policy({})})))
    model = make_tiny_model(run.base, layers=1, width=16, heads=2, kv_heads=1)
    shape = LanguageModelShape(model=LanguageModelConfig(path=str(model), lora=LoraConfig()), critic=True, games=())
    ref = PolicyRef(name=PolicyName("main"), version=PolicyVersion(1))
    PolicyStore(run.policies).publish(ref, {"base_model.model.x.lora_A.weight": np.zeros(3, np.float32)}, shape, step=0)
    return run


def policy(more: dict[str, Any]) -> dict[str, Any]:
    return {"policy": {"model": {"path": "ludus/mini"}, **more}}


def needs(run: Path, document: dict[str, Any]) -> NodeNeeds:
    distill = {"train": {"algorithm": {"preset": "distill"}}}
    config = resolve(build_config({"name": "x", "tasks": ["ludus/arithmetic?digits=1"], **distill, **document}))
    start = find_start(config)
    return find_needs(config, RunDirectory(run), policy_shape(config, {}, start), start, ["/my/plugin.py"])


def test_folders_are_brought_built_in_models_too_and_models_of_the_hub_are_the_nodes(
    theirs: RunDirectory, tmp_path: Path
) -> None:
    version = str(theirs.policies / "main" / "00000001")
    rewards = [{"kind": "exact"}, {"kind": "reward_model", "path": version}]
    found = needs(tmp_path / "run", {"rewards": rewards, **policy({"teacher": {"path": "Qwen/Qwen3-4B"}})})

    assert found.hub_models == ("Qwen/Qwen3-4B",)
    assert found.speaks
    assert set(found.outside) == {"/my/plugin.py", "ludus/mini", version, str(theirs.base)}
    assert (Path(found.outside["ludus/mini"]) / "model.safetensors").is_file()


def test_what_another_run_made_for_its_policy_comes_along(theirs: RunDirectory, tmp_path: Path) -> None:
    others = {"start": str(theirs.path), "teacher": {"run": str(theirs.path)}}
    found = needs(tmp_path / "run", {"rewards": [{"kind": "exact"}], **policy(others)})

    assert set(found.outside) == {"/my/plugin.py", str(theirs.policies), str(theirs.base)}
    assert (tmp_path / "run" / "teacher" / "main").is_dir(), "it is kept before nodes are told of it"
    assert found.hub_models == ()


def test_games_and_players_say_what_has_to_be_installed_there(tmp_path: Path) -> None:
    held_out = [{"key": "open_spiel:tic_tac_toe", "against": ["mcts-2", "solver"]}]
    evaluate = {"against": ["random", "uci:stockfish?nodes=1"], "held_out_games": held_out}
    config = build_config({"name": "x", "games": ["open_spiel:connect_four"], "evaluate": evaluate})
    found = find_needs(config, RunDirectory(tmp_path), policy_shape_of_boards(), None, [])
    assert found.parts == (
        "policy.network",
        "game open_spiel:connect_four",
        "game open_spiel:tic_tac_toe",
        "player random",
        "player uci:stockfish?nodes=1",
        "player mcts-2",
        "player solver",
    )


def policy_shape_of_boards() -> PolicyShape:
    return PolicyShape(network=MlpConfig(), observation_shape=(4,), actions=2, layout="channels_first", games=())
