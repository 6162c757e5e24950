"""Every preset makes a policy say what pays, is shown or is preferred: one prompt, one token, of which some are good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import ALGORITHMS, AlgorithmConfig, OptimizerConfig, TrainConfig
from ludus.lm.language_models import LanguageModel
from ludus.records import Experiences
from ludus.train.torch_learner import TorchLearner
from ludus.train.torch_state import TorchState

ON_POLICY, EXPERT, PAIRS = 32, 8, 8
GOOD = 128
"""Tokens below this are good."""


def learner(model: LanguageModel, preset: str) -> TorchLearner:
    parts = ALGORITHMS[preset]
    algorithm = AlgorithmConfig(
        preset=preset,  # type: ignore[arg-type]
        advantage=parts.advantage,
        objective=parts.objective,
        mu=parts.mu,
    )
    train = TrainConfig(
        algorithm=algorithm,
        minibatch=99,
        epochs=1,
        aggregation=parts.aggregation,
        aggregation_length=1 if parts.aggregation == "constant_norm" else None,
        optimizer=OptimizerConfig(learning_rate=0.03, schedule="constant"),
    )
    return TorchLearner(model, train, lora=None)


def what_follows(of: TorchLearner, state: TorchState, model: LanguageModel) -> np.ndarray:
    """Log-probabilities of every token after the prompt."""
    weights = {name: torch.from_numpy(x) for name, x in of.state_tensors(state)["weights"].items()}
    weights = {name: x for name, x in weights.items() if not name.startswith("value_head")}
    with torch.no_grad():
        output = torch.func.functional_call(model.model, weights, (torch.tensor([[1, 2]]),))
    found: np.ndarray = output.logits[0, -1].double().log_softmax(-1).numpy()
    return found


def batch(log_probs: np.ndarray, random: np.random.Generator) -> Experiences:
    """What the policy says, with its reward, a greedy answer's and a teacher's opinion; good examples; pairs."""
    vocabulary = len(log_probs)
    said = random.choice(vocabulary, size=ON_POLICY, p=np.exp(log_probs) / np.exp(log_probs).sum())
    good, bad = random.integers(0, GOOD, EXPERT + PAIRS), random.integers(GOOD, vocabulary, PAIRS)
    tokens = np.concatenate([said, good, bad])
    count = len(tokens)
    source = ["on_policy"] * ON_POLICY + ["expert"] * EXPERT + ["pairs"] * 2 * PAIRS
    pair = np.concatenate([np.full(ON_POLICY + EXPERT, -1), np.arange(PAIRS), np.arange(PAIRS)])
    own = np.arange(count) < ON_POLICY
    at_end = np.tile([0.0, 0.0, 1.0], count).astype(np.float32)
    logp = np.where(own, log_probs[tokens], 0.0)
    columns = {
        "logp": logp,
        "teacher_logp": logp + np.where(tokens < GOOD, 2.0, -2.0),
        "reward": own * (tokens < GOOD),
        "value": np.zeros(count),
    }
    steps: dict[str, Any] = {name: np.repeat(x, 3).astype(np.float32) * at_end for name, x in columns.items()}
    action = np.tile([1, 2, 0], count).astype(np.int32)
    action[2::3] = tokens
    return Experiences(
        sequences={
            "source": np.array(source, object),
            "pair": pair,
            "chosen": np.arange(count) < ON_POLICY + EXPERT + PAIRS,
            "group": np.full(count, "g", object),
            "baseline": np.full(count, 0.5, np.float32),
        },
        offsets=np.arange(0, 3 * count + 1, 3),
        steps={**steps, "action": action, "mask": at_end > 0, "version": np.zeros(3 * count, np.int32)},
    )


@pytest.mark.parametrize("preset", sorted(ALGORITHMS))
def test_a_policy_learns_what_is_good(load_tiny: Callable[..., LanguageModel], preset: str) -> None:
    model = load_tiny()
    model.model.get_input_embeddings().weight.mul_(5)
    of, random = learner(model, preset), np.random.default_rng(0)
    state = of.init(0)
    shares = []
    for number in range(30):
        log_probs = what_follows(of, state, model)
        shares.append(float(np.exp(log_probs[:GOOD]).sum()))
        state, metrics = of.train_batch(state, batch(log_probs, random), seed=number, progress=number / 30)
        assert metrics["skipped"] == 0
    assert shares[0] < 0.7
    assert shares[-1] > 0.85, shares
