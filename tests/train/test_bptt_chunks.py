"""Networks that remember, central critics and normalised values at the learner, beside a computation by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config import (
    AdvantageConfig,
    AlgorithmConfig,
    MemoryConfig,
    MlpConfig,
    OptimizerConfig,
    TermConfig,
    TrainConfig,
)
from ludus.errors import ConfigError, TrainError
from ludus.policies.networks import PolicyNetwork
from ludus.policies.value_scale import LEAST_VARIANCE, trained
from ludus.records import Experiences
from ludus.train.batches import cut, make_rows
from ludus.train.jax_learner import JaxLearner

SEEN, STATE, ACTIONS = 3, 4, 3
GAMMA, LAM = 0.9, 0.8


def network(*, memory: bool = True, critic: str = "central", normalises: bool = True, chunk: int = 4) -> PolicyNetwork:
    config = MlpConfig(hidden=(5,), activation="tanh", memory=MemoryConfig(size=4, chunk=chunk) if memory else None)
    return PolicyNetwork(
        config,
        observation_shape=(SEEN,),
        actions=ACTIONS,
        critic=critic,
        state_size=STATE,
        normalises_value=normalises,
    )


def learner(of: PolicyNetwork, *, kind: Any = "gae", minibatch: int = 64, epochs: int = 1) -> JaxLearner:
    advantage = AdvantageConfig(kind=kind, gamma=GAMMA, lam=LAM, normalise=False)
    objective = (TermConfig(loss="reinforce"), TermConfig(loss="value", options={"clip": None}))
    sgd = OptimizerConfig(kind="sgd", learning_rate=1.0, schedule="constant", max_grad_norm=None)
    train = TrainConfig(
        algorithm=AlgorithmConfig(advantage=advantage, objective=objective),
        minibatch=minibatch,
        epochs=epochs,
        optimizer=sgd,
    )
    return JaxLearner(of, train)


def experiences(lengths: list[int], *, seed: int = 0, noise: bool = False) -> Experiences:
    random = np.random.default_rng(seed)
    count = sum(lengths)
    mask = random.random(count) < 0.7 if noise else np.ones(count, bool)
    return Experiences(
        sequences={"truncated": np.zeros(len(lengths), bool)},
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        steps={
            "observation": random.normal(size=(count, SEEN)).astype(np.float32),
            "state": random.normal(size=(count, STATE)).astype(np.float32),
            "legal": np.ones((count, ACTIONS), bool),
            "action": random.integers(0, ACTIONS, count).astype(np.int32),
            "logp": -random.random(count).astype(np.float32),
            "value": (7 * random.normal(size=count)).astype(np.float32),
            "reward": (7 + 9 * random.normal(size=count)).astype(np.float32),
            "mask": mask,
        },
    )


def gae_by_hand(batch: Experiences) -> tuple[np.ndarray, np.ndarray]:
    """Straight from the formula, one decision after the other, for batches without noise."""
    reward, value = (np.asarray(batch.steps[name], np.float64) for name in ("reward", "value"))
    advantage = np.zeros_like(reward)
    for start, stop in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
        following = 0.0
        for t in reversed(range(start, stop)):
            next_value = value[t + 1] if t + 1 < stop else 0.0
            following = reward[t] + GAMMA * next_value - value[t] + GAMMA * LAM * following
            advantage[t] = following
    return advantage, advantage + value


def gradient_by_hand(of: PolicyNetwork, params: dict[str, Any], batch: Experiences) -> dict[str, Any]:
    """Unroll every sequence step by step from an empty memory; targets and values are normalised in NumPy."""
    advantage, target = gae_by_hand(batch)
    mean, deviation = 0.0, 1.0
    if of.normalises_value:
        mean, deviation = target.mean(), np.sqrt(max(target.var(), LEAST_VARIANCE))
    plain = PolicyNetwork(of.config, observation_shape=(SEEN,), actions=ACTIONS, critic=of.critic, state_size=STATE)

    step = jax.jit(plain.step)

    def loss(params: dict[str, Any]) -> Any:
        total = 0.0
        for start, stop in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
            memory = jnp.zeros((1, plain.memory_size))
            for t in range(start, stop):
                seen, state = batch.steps["observation"][t : t + 1], batch.steps["state"][t : t + 1]
                logits, value, memory = step(params, seen, state, memory)
                logp = jax.nn.log_softmax(logits[0])[batch.steps["action"][t]]
                total += -advantage[t] * logp + 0.5 * (value[0] - (target[t] - mean) / deviation) ** 2
        return total / batch.step_count

    return jax.grad(loss)(trained(params))


@pytest.mark.parametrize(
    ("memory", "normalises"),
    [
        (True, True),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
    ],
)
def test_an_update_is_the_gradient_computed_by_hand(memory: bool, normalises: bool) -> None:
    of = network(memory=memory, normalises=normalises, chunk=4)
    batch = experiences([4, 1, 3])
    start = learner(of).init(3)
    state, _ = learner(of).train_batch(start, batch, seed=0, progress=0.0)
    expected = gradient_by_hand(of, start.params, batch)
    for name, gradient in expected.items():
        np.testing.assert_allclose(
            start.params[name] - state.params[name], gradient, rtol=2e-3, atol=2e-4, err_msg=name
        )


def test_sequences_are_cut_into_chunks_of_their_own() -> None:
    index, sequence = cut(np.array([0, 5, 6, 10]), 2)
    assert index.tolist() == [[0, 1], [2, 3], [4, -1], [5, -1], [6, 7], [8, 9]]
    assert sequence.tolist() == [0, 0, 0, 1, 2, 2]


def test_a_chunk_begins_with_what_the_seat_remembered_noise_included() -> None:
    of = network(chunk=3)
    params, batch = of.init(1), experiences([8, 2, 9, 1], noise=True)
    rows = make_rows(of).of(batch, None, params)
    step = jax.jit(of.step)
    for start, stop in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
        memory = np.zeros((1, of.memory_size), np.float32)
        for t in range(start, stop):
            if (t - start) % 3 == 0:
                (row,) = np.flatnonzero(rows.index[:, 0] == t)
                np.testing.assert_allclose(rows.batch["memory"][row], memory[0], rtol=1e-5, atol=1e-6)
            _, _, memory = step(params, batch.steps["observation"][t : t + 1], batch.steps["state"][t : t + 1], memory)
    np.testing.assert_array_equal(rows.scatter(rows.gather(batch.steps["logp"])), batch.steps["logp"])
    np.testing.assert_array_equal(rows.scatter(rows.batch["weight"]), batch.steps["mask"])


def test_vtrace_asks_a_network_that_remembers() -> None:
    of = network(chunk=3, normalises=False)
    teacher, batch = learner(of, kind="vtrace"), experiences([8, 2], noise=True)
    state = teacher.init(0)
    found, logp = teacher._reconsidered(state, batch, make_rows(of).of(batch, None, state.params))
    unroll = jax.jit(of.unroll)
    for start, stop in ((0, 8), (8, 10)):
        seen, whole = batch.steps["observation"][None, start:stop], batch.steps["state"][None, start:stop]
        logits, value, _ = unroll(state.params, seen, whole, None)
        chosen = np.asarray(jax.nn.log_softmax(logits[0]))[np.arange(stop - start), batch.steps["action"][start:stop]]
        np.testing.assert_allclose(logp[start:stop], chosen, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.steps["value"][start:stop], value[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_update_does_not_depend_on_what_was_trained_on_before_it() -> None:
    """A larger batch before leaves more padding behind; a resumed trainer has not seen it."""
    of = network(chunk=3)
    used, fresh = learner(of, minibatch=12, epochs=2), learner(of, minibatch=12, epochs=2)
    used.train_batch(used.init(0), experiences([9] * 20, seed=1), seed=1, progress=0.0)
    batch = experiences([7, 4, 9, 1], seed=2, noise=True)
    first, _ = used.train_batch(used.init(5), batch, seed=2, progress=0.5)
    second, metrics = fresh.train_batch(fresh.init(5), batch, seed=2, progress=0.5)
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert metrics["rows"] == batch.steps["mask"].sum()


def test_the_scale_of_values_is_saved_and_loaded_with_the_weights() -> None:
    of = network()
    teacher = learner(of)
    state, _ = teacher.train_batch(teacher.init(0), experiences([5, 6]), seed=1, progress=0.0)
    tensors = teacher.state_tensors(state)
    assert float(tensors["weights"]["value_scale.counted"]) > 0
    assert not any("value_scale" in name for name in tensors["optimizer"])
    jax.tree.map(np.testing.assert_array_equal, teacher.state_from_tensors(tensors), state)


def test_a_central_critic_refuses_experience_without_states() -> None:
    teacher, batch = learner(network()), experiences([3])
    blind = Experiences(
        sequences=batch.sequences,
        offsets=batch.offsets,
        steps={name: column for name, column in batch.steps.items() if name != "state"},
    )
    with pytest.raises(TrainError, match="central and sees 4 numbers, which the experience lacks"):
        teacher.train_batch(teacher.init(0), blind, seed=0, progress=0.0)


def test_a_minibatch_of_chunks_must_be_divisible() -> None:
    train = learner(network())._train.model_copy(update={"minibatch": 12, "accumulate": 2})
    with pytest.raises(ConfigError, match="2 does not divide 3 rows"):
        JaxLearner(network(chunk=4), train)
