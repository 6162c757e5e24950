"""What a GPU must give: the same updates as a CPU, to rounding. `make gpu` runs these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ludus.config import ALGORITHMS, AlgorithmConfig, LoraConfig, OptimizerConfig, TrainConfig
from ludus.lm.devices import find_device
from ludus.lm.language_models import LanguageModel
from ludus.train.torch_learner import TorchLearner

from .conftest import token_experiences

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
    found, metrics = updated(there, preset, lora)
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=0, atol=1e-4, err_msg=name)
    assert metrics == pytest.approx(told, rel=1e-2, abs=1e-3)
