"""What a GPU must give: the same updates as a CPU, to rounding. `make gpu` runs these, and prints a table to send."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ludus.config import ALGORITHMS, AlgorithmConfig, LoraConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.lm.devices import find_device
from ludus.lm.language_models import LanguageModel
from ludus.train.torch_learner import TorchLearner

from .conftest import GPU_ROWS, token_experiences
from .test_sharded import GRPO, PPO, assert_close, make, run_updates, tiny_model, written

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU and a PyTorch built with CUDA"),
]


def updated(
    model: LanguageModel, preset: str, lora: LoraConfig | None
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Weights and metrics after two updates."""
    parts = ALGORITHMS[preset]
    algorithm = AlgorithmConfig(preset=preset, advantage=parts.advantage, objective=parts.objective)
    optimizer = OptimizerConfig(learning_rate=1e-3, schedule="constant")
    learner = TorchLearner(model, TrainConfig(algorithm=algorithm, optimizer=optimizer, minibatch=4), lora=lora)
    state, metrics = learner.init(0), dict[str, float]()
    for seed in range(2):
        state, metrics = learner.train_batch(state, token_experiences(seed=seed), seed=seed, progress=0.0)
    return learner.state_tensors(state)["weights"], metrics


@pytest.mark.parametrize("lora", [None, LoraConfig(rank=4)], ids=["full", "lora"])
@pytest.mark.parametrize("preset", ["grpo", "ppo"])
def test_updates_on_a_gpu_are_those_of_a_cpu(
    load_tiny: Callable[..., LanguageModel], preset: str, lora: LoraConfig | None
) -> None:
    here, there = load_tiny(), load_tiny()
    there.model.to(find_device("auto"))  # type: ignore[arg-type]
    expected, told = updated(here, preset, lora)
    began = time.perf_counter()
    found, metrics = updated(there, preset, lora)
    tell(f"{preset} {'lora' if lora else 'whole'}, one GPU", began)
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=0, atol=1e-4, err_msg=name)
    assert metrics == pytest.approx(told, rel=1e-2, abs=1e-3)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("lora", [None, LoraConfig(rank=2)], ids=["whole", "lora"])
@pytest.mark.parametrize("preset", [GRPO, PPO], ids=["grpo", "ppo"])
@pytest.mark.parametrize("offloads", [False, True], ids=["", "offloaded"])
def test_two_gpus_with_a_shard_each_are_a_cpu(
    tmp_path: Path, preset: tuple[str, TermConfig], lora: LoraConfig | None, offloads: bool
) -> None:
    """NCCL: weights and metrics of three updates; and the state that one CPU reads."""
    path = tiny_model(tmp_path, tied=True)
    one = make(path, 1, preset[0], lora, preset[1], scratch=tmp_path, device="cpu")
    more = {"device": "cuda", "offload_optimizer": offloads}
    two = make(path, 2, preset[0], lora, preset[1], scratch=tmp_path, **more)
    try:
        alone, expected = run_updates(one, one.init(3))
        began = time.perf_counter()
        together, found = run_updates(two, two.init(3))
        tell(f"{preset[0]} {'lora' if lora else 'whole'}, two GPUs{', offloaded' if offloads else ''}", began)
        assert [set(mine) for mine in found] == [set(theirs) for theirs in expected]
        assert found[-1] == pytest.approx(expected[-1], rel=1e-2, abs=1e-3)
        assert_close(written(one, alone, tmp_path / "one"), written(two, together, tmp_path / "two"), atol=1e-4)
    finally:
        two.close()


def tell(what: str, began: float) -> None:
    """A row of the table."""
    seconds, peak = time.perf_counter() - began, torch.cuda.max_memory_allocated() / 2**20
    GPU_ROWS.append((what, torch.cuda.get_device_name(), f"{seconds:.2f} s", f"{peak:.0f} MiB"))
    torch.cuda.reset_peak_memory_stats()
