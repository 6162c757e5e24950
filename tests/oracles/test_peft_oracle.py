"""What the language-model learner trains as adapters is what peft computes with; and GAE as verl defines it for turns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import (
    ALGORITHMS,
    AlgorithmConfig,
    LanguageModelConfig,
    LoraConfig,
    OptimizerConfig,
    TermConfig,
    TrainConfig,
)
from ludus.lm.adapters import adapter_config_json
from ludus.lm.language_models import load_language_model
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import Experiences
from ludus.train.advantages import gae
from ludus.train.torch_learner import TorchLearner

RANDOM = np.random.default_rng(0)


@pytest.mark.filterwarnings("ignore")
def test_one_step_of_imitation_is_that_of_peft_and_adamw(tmp_path: Any) -> None:
    """Three steps: the first moves B alone (it begins at 0), the others A too."""
    peft = pytest.importorskip("peft")
    torch.set_num_threads(1)
    folder = make_tiny_model(tmp_path / "tiny", layers=2, width=32, context=64)
    model = load_language_model(LanguageModelConfig(path=str(folder)))
    lora = LoraConfig(rank=3, alpha=6.0)
    config = TrainConfig(
        minibatch=4,
        epochs=3,
        algorithm=AlgorithmConfig(advantage=ALGORITHMS["sft"].advantage, objective=(TermConfig(loss="sft"),)),
        optimizer=OptimizerConfig(kind="adamw", learning_rate=0.01, schedule="constant", weight_decay=0.01),
    )
    tokens = RANDOM.integers(0, 200, (4, 12))
    mask = np.tile(np.arange(12) >= 5, (4, 1))
    zeros = np.zeros(48, np.float32)
    batch = Experiences(
        sequences={},
        offsets=np.arange(0, 49, 12),
        steps={
            "action": tokens.reshape(-1).astype(np.int32), "mask": mask.reshape(-1), "logp": zeros, "value": zeros,
            "reward": zeros,
        },
    )  # fmt: skip
    learner = TorchLearner(model, config, lora=lora)
    state = learner.init(0)
    start = learner.state_tensors(state)["weights"]
    state, _ = learner.train_batch(state, batch, seed=0, progress=0.0)
    found = learner.state_tensors(state)["weights"]

    settings = peft.LoraConfig(**adapter_config_json(str(folder), lora, start) | {"inference_mode": False})
    theirs = peft.get_peft_model(copy.deepcopy(model.model), settings)
    peft.set_peft_model_state_dict(theirs, {name: torch.from_numpy(x) for name, x in start.items()})
    trained = [parameter for parameter in theirs.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01, eps=1e-5, weight_decay=0.01)
    labels = torch.from_numpy(np.where(mask, tokens, -100))
    for _ in range(3):
        optimizer.zero_grad()
        theirs(torch.from_numpy(tokens), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.5)
        optimizer.step()
    for name, x in peft.get_peft_model_state_dict(theirs).items():
        np.testing.assert_allclose(found[name], x.detach(), atol=1e-4, err_msg=name)
        assert np.abs(found[name] - start[name]).max() > 1e-3


def test_gae_passes_over_what_others_said_as_in_verl() -> None:
    """The recursion of verl 0.9.1's `compute_gae_advantage_return`, written out (its package needs Ray to import)."""
    count, length, gamma, lam = 5, 12, 0.97, 0.9
    mask = RANDOM.random((count, length)) < 0.6
    mask[:, [0, -1]] = True
    reward = np.zeros((count, length))
    reward[:, -1] = RANDOM.normal(size=count)
    value = RANDOM.normal(size=(count, length))
    next_value, carried = np.zeros(count), np.zeros(count)
    expected = np.zeros((count, length))
    for t in reversed(range(length)):
        fresh = reward[:, t] + gamma * next_value - value[:, t] + gamma * lam * carried
        next_value = np.where(mask[:, t], value[:, t], next_value)
        carried = np.where(mask[:, t], fresh, carried)
        expected[:, t] = carried
    steps = {"mask": mask.reshape(-1), "reward": reward.reshape(-1), "value": value.reshape(-1)}
    batch = Experiences(sequences={}, offsets=np.arange(0, count * length + 1, length), steps=steps)
    advantage, target = (x.reshape(count, length) for x in gae(batch, gamma=gamma, lam=lam))
    np.testing.assert_allclose(advantage[mask], expected[mask], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(target[mask], (expected + value)[mask], rtol=1e-5, atol=1e-6)
    assert not advantage[~mask].any()
