"""Trainers that share a model's weights (FSDP2): the update of one, a state that any number of them read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed import checkpoint as dcp
from transformers import AutoModelForCausalLM

from ludus.config import (
    ALGORITHMS,
    AlgorithmConfig,
    GameChoice,
    LanguageModelConfig,
    LoraConfig,
    OptimizerConfig,
    PolicyConfig,
    RunConfig,
    RuntimeConfig,
    TermConfig,
    TrainConfig,
)
from ludus.lm.tiny_model import make_tiny_model
from ludus.storage.tensor_shards import open_state
from ludus.storage.tensors import load_tensors
from ludus.train.learners import make_learner
from ludus.train.sharded_trainers import ShardedTrainers
from ludus.train.state_folders import read_state, write_state

from .conftest import token_experiences

GRPO = ("grpo", TermConfig(loss="kl", weight=0.05, options={"reference": "base"}))
PPO = ("ppo", TermConfig(loss="entropy", weight=0.01))


def config(
    path: str, trainers: int, preset: str, lora: LoraConfig | None, *more: TermConfig, **train: Any
) -> RunConfig:
    parts = ALGORITHMS[preset]
    algorithm = AlgorithmConfig(advantage=parts.advantage, objective=(*parts.objective, *more))
    settings = {
        "algorithm": algorithm,
        "optimizer": OptimizerConfig(kind="adamw", learning_rate=1e-4, schedule="constant", weight_decay=0.01),
        "minibatch": 7,
        "epochs": 1,
        "forward": "packed",
        **({"sharding": "fsdp"} if trainers > 1 else {}),
        **train,
    }
    return RunConfig(
        name="test",
        games=(GameChoice(key="open_spiel:tic_tac_toe"),),
        policy=PolicyConfig(model=LanguageModelConfig(path=path, lora=lora)),
        train=TrainConfig(trainers=trainers, **settings),
        runtime=RuntimeConfig(stall_s=600.0),
    )


def shape(path: str, lora: LoraConfig | None, *, critic: bool) -> dict[str, Any]:
    model = LanguageModelConfig(path=path, lora=lora)
    return {"model": model.model_dump(mode="json"), "critic": critic, "games": ["open_spiel:tic_tac_toe"]}


def tiny_model(folder: Path, *, tied: bool) -> str:
    path = make_tiny_model(folder / "tiny", layers=2, width=32, context=256)
    if not tied:
        model: Any = AutoModelForCausalLM.from_pretrained(path, tie_word_embeddings=False)
        torch.nn.init.normal_(model.lm_head.weight, std=0.02, generator=torch.Generator().manual_seed(1))
        model.save_pretrained(path)
        assert "lm_head.weight" in load_tensors(path / "model.safetensors")
    return str(path)


def make(
    path: str, trainers: int, preset: str, lora: LoraConfig | None, *more: TermConfig, scratch: Path, **train: Any
) -> Any:
    run = config(path, trainers, preset, lora, *more, **train)
    return make_learner(run, shape(path, lora, critic=preset == "ppo"), scratch=scratch)


def batches() -> Sequence[Any]:
    """Rows of very different lengths in three minibatches; the last batch has one row, so a trainer has nothing."""
    return (
        token_experiences(rows=15, turns=2),
        token_experiences(rows=9, longest=30, seed=1),
        token_experiences(rows=1, seed=2),
    )


def written(learner: Any, state: Any, folder: Path) -> Path:
    folder.mkdir()
    write_state(learner, state, folder, folder.name)
    return folder


def assert_close(one: Path, other: Path, *, atol: float) -> None:
    found, expected = open_state(other)["weights"], open_state(one)["weights"]
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=0, atol=atol, err_msg=name)


def run_updates(learner: Any, state: Any) -> tuple[Any, list[dict[str, float]]]:
    told = []
    for number, batch in enumerate(batches()):
        state, metrics = learner.train_batch(state, batch, number, 0.25)
        told.append(metrics)
    return state, told


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
@pytest.mark.parametrize(
    ("preset", "lora", "tied"),
    [
        (GRPO, None, True),
        pytest.param(PPO, LoraConfig(rank=2), True, marks=pytest.mark.slow),
        pytest.param(GRPO, LoraConfig(rank=2), False, marks=pytest.mark.slow),
        pytest.param(PPO, None, False, marks=pytest.mark.slow),
    ],
    ids=["grpo-whole-tied", "ppo-lora-tied", "grpo-lora-untied", "ppo-whole-untied"],
)
def test_two_trainers_with_a_shard_each_are_one(
    tmp_path: Path, preset: tuple[str, TermConfig], lora: LoraConfig | None, tied: bool
) -> None:
    """Three updates, one of them with too few rows for both; then the state goes to one trainer and back."""
    torch.set_num_threads(1)
    path = tiny_model(tmp_path, tied=tied)
    one = make(path, 1, preset[0], lora, preset[1], scratch=tmp_path)
    two = make(path, 2, preset[0], lora, preset[1], scratch=tmp_path)
    assert isinstance(two, ShardedTrainers)
    try:
        alone, expected = run_updates(one, one.init(3))
        together, found = run_updates(two, two.init(3))
        for mine, theirs in zip(found, expected, strict=True):
            assert mine.keys() == theirs.keys()
            for name, value in theirs.items():
                assert mine[name] == pytest.approx(value, rel=1e-4, abs=1e-4), name
        assert_close(written(one, alone, tmp_path / "one"), written(two, together, tmp_path / "two"), atol=1e-5)
        moved = read_state(one, tmp_path / "two", "two")
        written(one, moved, tmp_path / "moved")
        back = read_state(two, tmp_path / "moved", "moved")
        assert back.steps == together.steps
        written(two, back, tmp_path / "back")
        for file in (tmp_path / "two").iterdir():
            assert file.read_bytes() == (tmp_path / "back" / file.name).read_bytes()
        assert_torch_reads(tmp_path / "two")
    finally:
        two.close()


def assert_torch_reads(folder: Path) -> None:
    """The folder is one of torch.distributed.checkpoint."""
    expected = open_state(folder)["weights"]
    into = {f"weights.{name}": torch.empty(expected.shape(name)) for name in expected}
    dcp.load(into, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), no_dist=True)
    for name, tensor in expected.items():
        np.testing.assert_array_equal(into[f"weights.{name}"].numpy(), tensor)
