"""The whole learner against torch: the same network, autograd, gradient clipping and Adam, written the usual way."""

from __future__ import annotations

import jax
import numpy as np
import torch

from ludus.config import AdvantageConfig, AlgorithmConfig, MlpConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.policies.networks import PolicyNetwork
from ludus.train.jax_learner import JaxLearner, key_of

ROWS, EPOCHS, RATE = 64, 3, 3e-3
TERMS = (
    TermConfig(loss="ppo_clip", options={"clip_low": 0.2, "clip_high": 0.28}),
    TermConfig(loss="value", weight=0.5, options={"clip": 0.2}),
    TermConfig(loss="entropy", weight=0.01),
)


def batch() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    legal = random.random((ROWS, 5)) < 0.7
    legal[:, 2] = True
    floats = {name: random.normal(size=ROWS).astype(np.float32) for name in ("advantage", "target", "value")}
    return {
        "observation": (random.random((ROWS, 3, 4)) < 0.5),
        "legal": legal,
        "action": np.full(ROWS, 2, np.int32),
        "logp": -1.5 * random.random(ROWS).astype(np.float32),
        "weight": np.ones(ROWS, np.float32),
        **floats,
    }


class TorchMlp(torch.nn.Module):
    def __init__(self, params: dict[str, np.ndarray]) -> None:
        super().__init__()
        names = ("torso.0", "torso.1", "heads.policy", "heads.value")
        self.layers = torch.nn.ModuleList()
        for name in names:
            kernel, bias = (torch.tensor(np.asarray(params[f"{name}.{part}"])) for part in ("kernel", "bias"))
            layer = torch.nn.Linear(*kernel.shape)
            layer.weight, layer.bias = torch.nn.Parameter(kernel.T.contiguous()), torch.nn.Parameter(bias)
            self.layers.append(layer)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.flatten(1).float()
        for layer in self.layers[:2]:
            x = torch.relu(layer(x))
        return self.layers[2](x), self.layers[3](x)[:, 0]


def train_in_torch(params: dict[str, np.ndarray], columns: dict[str, np.ndarray]) -> TorchMlp:
    model = TorchMlp(params)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, eps=1e-5)
    b = {name: torch.from_numpy(column) for name, column in columns.items()}
    advantage = (b["advantage"] - b["advantage"].mean()) / (b["advantage"].std(unbiased=False) + 1e-8)
    for _ in range(EPOCHS):
        logits, value = model(b["observation"])
        policy = torch.distributions.Categorical(logits=logits.masked_fill(~b["legal"], -1e9))
        ratio = (policy.log_prob(b["action"]) - b["logp"]).exp()
        policy_loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage).mean()
        near = b["value"] + (value - b["value"]).clamp(-0.2, 0.2)
        value_loss = 0.5 * torch.maximum((value - b["target"]) ** 2, (near - b["target"]) ** 2).mean()
        loss = policy_loss + 0.5 * value_loss - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return model


def test_three_steps_give_the_weights_that_torch_gives() -> None:
    network = PolicyNetwork(MlpConfig(hidden=(16, 16)), observation_shape=(3, 4), actions=5)
    config = TrainConfig(
        minibatch=ROWS,
        epochs=EPOCHS,
        algorithm=AlgorithmConfig(advantage=AdvantageConfig(), objective=TERMS),
        optimizer=OptimizerConfig(learning_rate=RATE, schedule="constant"),
    )
    learner = JaxLearner(network, config)
    start = learner.init(0)
    state, _ = jax.jit(learner.update)(start, batch(), key_of(0), np.float32(0.5))
    expected = TorchMlp({name: np.asarray(x) for name, x in state.params.items()}).state_dict()
    found = train_in_torch(dict(start.params), batch()).state_dict()
    for name, weight in expected.items():
        np.testing.assert_allclose(found[name], weight, rtol=1e-3, atol=2e-5)
