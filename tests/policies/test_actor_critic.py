"""Networks with a critic of their own, and networks that remember."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

from ludus.config import MemoryConfig, MlpConfig, ResNetConfig
from ludus.errors import ConfigError
from ludus.policies import PolicyShape
from ludus.policies.networks import PolicyNetwork

ROWS, LENGTH, SEEN, STATE, ACTIONS = 3, 7, 5, 11, 4
RANDOM = np.random.default_rng(0)
OBSERVATION = RANDOM.normal(size=(ROWS, LENGTH, SEEN)).astype(np.float32)
STATES = RANDOM.normal(size=(ROWS, LENGTH, STATE)).astype(np.float32)


def network(critic: str = "shared", *, memory: bool = True) -> PolicyNetwork:
    config = MlpConfig(hidden=(8,), activation="tanh", memory=MemoryConfig(size=6) if memory else None)
    return PolicyNetwork(config, observation_shape=(SEEN,), actions=ACTIONS, critic=critic, state_size=STATE)


def lively(of: PolicyNetwork) -> dict[str, Any]:
    """Weights of which none is zero, so that every one matters."""
    random = np.random.default_rng(1)
    return {name: random.normal(scale=0.5, size=shape).astype(np.float32) for name, shape in of.shapes().items()}


@pytest.mark.parametrize("critic", ["shared", "own", "central"])
def test_a_chunk_gives_what_its_decisions_give_one_by_one(critic: str) -> None:
    net = network(critic)
    params, state = lively(net), STATES if critic == "central" else None
    logits, value, last = jax.jit(net.unroll)(params, OBSERVATION, state, None)
    memory: Any = np.zeros((ROWS, net.memory_size), np.float32)
    step = jax.jit(net.step)
    for t in range(LENGTH):
        now = None if state is None else state[:, t]
        step_logits, step_value, memory = step(params, OBSERVATION[:, t], now, memory)
        np.testing.assert_allclose(step_logits, logits[:, t], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(step_value, value[:, t], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(memory, last, rtol=1e-5, atol=1e-6)
    assert net.memory_size == (6 if critic == "shared" else 12)


def test_a_chunk_may_be_cut_anywhere() -> None:
    net = network("own")
    params = lively(net)
    unroll = jax.jit(net.unroll)
    whole = unroll(params, OBSERVATION, None, None)
    first = unroll(params, OBSERVATION[:, :3], None, None)
    rest = unroll(params, OBSERVATION[:, 3:], None, first[2])
    np.testing.assert_allclose(np.concatenate([first[0], rest[0]], axis=1), whole[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rest[2], whole[2], rtol=1e-5, atol=1e-6)


def test_the_recurrent_unit_is_torchs() -> None:
    net = network()
    params = lively(net)
    cell = torch.nn.GRU(8, 6, batch_first=True)
    with torch.no_grad():
        for ours, theirs in (("seen", "ih"), ("remembered", "hh")):
            getattr(cell, f"weight_{theirs}_l0").copy_(torch.tensor(params[f"actor.gru.{ours}.kernel"].T))
            getattr(cell, f"bias_{theirs}_l0").copy_(torch.tensor(params[f"actor.gru.{ours}.bias"]))
        features = np.tanh(OBSERVATION @ params["actor.torso.0.kernel"] + params["actor.torso.0.bias"])
        outputs, _ = cell(torch.tensor(features))
    expected = outputs.numpy() @ params["policy.kernel"] + params["policy.bias"]
    np.testing.assert_allclose(jax.jit(net.unroll)(params, OBSERVATION, None, None)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", [True, False])
def test_the_central_critic_sees_the_state_and_the_policy_does_not(memory: bool) -> None:
    net = network("central", memory=memory)
    params = lively(net)
    unroll = jax.jit(net.unroll)
    before = unroll(params, OBSERVATION, STATES, None)
    after = unroll(params, OBSERVATION, STATES + 1.0, None)
    np.testing.assert_array_equal(before[0], after[0])
    assert np.abs(np.asarray(before[1] - after[1])).min() > 1e-4
    with pytest.raises(ConfigError, match="central needs the state"):
        net.apply(params, OBSERVATION[:, 0])


def test_an_own_critic_shares_no_weight_with_the_policy() -> None:
    net = network("own", memory=False)
    params = lively(net)

    def values(params: dict[str, Any]) -> Any:
        return net.apply(params, OBSERVATION[:, 0])[1].sum()

    moved = {name for name, gradient in jax.jit(jax.grad(values))(params).items() if np.abs(gradient).max() > 0}
    assert moved == {name for name in params if name.startswith(("critic.", "value."))}


def test_a_resnet_has_no_critic_of_its_own() -> None:
    with pytest.raises(ConfigError, match="a resnet shares its critic"):
        PolicyNetwork(ResNetConfig(), observation_shape=(3, 3, 2), actions=9, critic="own")


def test_shapes_without_the_newer_keys_are_those_of_plain_networks() -> None:
    shape = PolicyShape(
        network=MlpConfig(hidden=(4,)), observation_shape=(SEEN,), actions=2, layout="channels_first", games=("x",)
    )
    old = {name: value for name, value in shape.to_json().items() if name not in ("critic", "state_size", "normalises_value")}  # fmt: skip
    del old["network"]["memory"]
    assert PolicyShape.from_json(old) == shape
