"""The JAX learner: what counts, what does not, what is skipped, and that it learns."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config import AdvantageConfig, AlgorithmConfig, MlpConfig, MuConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.errors import ConfigError, CorruptRecord, TrainError
from ludus.policies.networks import PolicyNetwork
from ludus.records import Experiences
from ludus.train.advantages import compute, whitened
from ludus.train.batches import bucket, pad
from ludus.train.jax_learner import JaxLearner, LearnerState, key_of
from ludus.train.minibatches import whitened as on_device
from ludus.train.optimizers import build_optimizer, learning_rate

ACTIONS, FEATURES, MINIBATCH = 3, 4, 16
SIZE = 64
"""Rows of most batches here: every other size is compiled anew."""


OPTIMIZER = OptimizerConfig(learning_rate=0.02, schedule="linear", final_fraction=0.5)


@cache
def learner(
    *, kind: Any = "gae", policy_loss: str = "ppo_clip", kl_stop: float | None = None, **train: Any
) -> JaxLearner:
    """Cached, because each is compiled once."""
    objective = (TermConfig(loss=policy_loss), TermConfig(loss="value"), TermConfig(loss="entropy", weight=0.01))
    algorithm = AlgorithmConfig(advantage=AdvantageConfig(kind=kind), objective=objective, kl_stop=kl_stop)
    network = PolicyNetwork(MlpConfig(hidden=(8,)), observation_shape=(FEATURES,), actions=ACTIONS)
    settings = {"minibatch": MINIBATCH, "epochs": 2, "optimizer": OPTIMIZER, **train}
    return JaxLearner(network, TrainConfig(algorithm=algorithm, **settings))


def rows(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    legal = random.random((count, ACTIONS)) < 0.8
    legal[:, 0] = True
    return {
        "observation": random.normal(size=(count, FEATURES)).astype(np.float32),
        "legal": legal,
        "action": np.zeros(count, np.int32),
        "logp": -random.random(count).astype(np.float32),
        "advantage": random.normal(size=count).astype(np.float32),
        "target": random.normal(size=count).astype(np.float32),
        "value": random.normal(size=count).astype(np.float32),
        "weight": np.ones(count, np.float32),
    }


def update(
    of: JaxLearner, batch: dict[str, Any], state: LearnerState | None = None, seed: int = 1, progress: float = 0.0
) -> tuple[LearnerState, dict[str, float]]:
    state, metrics = of._jitted_update(state or of.init(0), batch, key_of(seed), np.float32(progress))
    return state, {name: float(value) for name, value in metrics.items()}


def assert_same(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


def experiences(lengths: list[int], seed: int = 0, *, all_chosen: bool = True) -> Experiences:
    random = np.random.default_rng(seed)
    count = sum(lengths)
    columns = rows(count, seed)
    names = ("observation", "legal", "action", "logp", "value")
    mask = np.ones(count, bool) if all_chosen else random.random(count) < 0.7
    return Experiences(
        sequences={"truncated": np.zeros(len(lengths), bool)},
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        steps={name: columns[name] for name in names} | {"mask": mask, "reward": columns["advantage"]},
    )


# -- several sources -----------------------------------------------------------------------------------------------------


MIXED = (
    TermConfig(loss="reinforce", share="rest"),
    TermConfig(loss="value", share="rest"),
    TermConfig(loss="sft", source="expert", share="mu"),
)


def mixed_learner(terms: tuple[TermConfig, ...], mu: float | None, **train: Any) -> JaxLearner:
    advantage = train.pop("advantage", AdvantageConfig())
    algorithm = AlgorithmConfig(advantage=advantage, objective=terms, mu=None if mu is None else MuConfig(peak=mu))
    network = PolicyNetwork(MlpConfig(hidden=(8,)), observation_shape=(FEATURES,), actions=ACTIONS)
    sgd = OptimizerConfig(kind="sgd", learning_rate=1.0, schedule="constant", max_grad_norm=None)
    return JaxLearner(network, TrainConfig(algorithm=algorithm, minibatch=64, epochs=1, optimizer=sgd, **train))


def gradient(of: JaxLearner, batch: Experiences) -> tuple[np.ndarray, dict[str, float]]:
    start = of.init(0)
    state, metrics = of.train_batch(start, batch, seed=1, progress=0.5)
    difference = jax.tree.map(lambda before, after: np.asarray(before - after).ravel(), start.params, state.params)
    return np.concatenate(jax.tree.leaves(difference)), metrics


def test_a_mixed_objective_is_its_parts_each_averaged_over_its_own_rows() -> None:
    """Cut in two or not; what experts' rows hold besides decisions does not matter."""
    batch = experiences([7, 5, 9, 6, 8])
    source = np.array(["on_policy", "expert", "on_policy", "expert", "on_policy"], object)
    own = (source == "on_policy")[batch.sequence_of_step()]
    holes = {name: np.where(own, batch.steps[name], np.nan).astype(np.float32) for name in ("logp", "value", "reward")}
    mixed = batch.replace(sequences={"source": source}, steps=holes)
    policy, of_policy = gradient(
        mixed_learner(tuple(t.model_copy(update={"share": None}) for t in MIXED[:2]), None), mixed
    )
    imitation, of_imitation = gradient(mixed_learner((TermConfig(loss="sft", source="expert"),), None), mixed)
    for pieces in (1, 2):
        found, metrics = gradient(mixed_learner(MIXED, 0.25, accumulate=pieces), mixed)
        np.testing.assert_allclose(found, 0.75 * policy + 0.25 * imitation, atol=1e-5)
        assert metrics["sft"] == pytest.approx(of_imitation["sft"], rel=1e-4)
        assert metrics["mu"] == pytest.approx(0.25)
        for name in ("reinforce", "entropy", "approx_kl", "explained_variance"):
            assert metrics[name] == pytest.approx(of_policy[name], rel=1e-4), name
    assert of_policy["rows"] == 24
    assert of_imitation["rows"] == 11


def test_advantages_may_be_scaled_over_the_whole_batch() -> None:
    batch = experiences([7, 5, 9])
    advantage = AdvantageConfig(kind="monte_carlo", normalise=False, normalise_batch=True)
    found, _ = gradient(mixed_learner((TermConfig(loss="reinforce"),), None, advantage=advantage), batch)
    returns, _ = compute(batch, AdvantageConfig(kind="monte_carlo"))
    scaled = whitened(returns, np.ones(len(returns), bool))
    np.testing.assert_allclose(scaled.std(ddof=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(on_device(jnp.asarray(returns), jnp.ones(len(returns))), scaled, rtol=1e-4, atol=1e-5)
    rewards = np.concatenate([scaled[:-1] - scaled[1:], scaled[-1:]])
    ends = batch.offsets[1:] - 1
    rewards[ends] = scaled[ends]
    plain = mixed_learner(
        (TermConfig(loss="reinforce"),), None, advantage=AdvantageConfig(kind="monte_carlo", normalise=False)
    )
    np.testing.assert_allclose(found, gradient(plain, batch.replace(steps={"reward": rewards}))[0], atol=1e-5)


def test_pairs_and_what_is_for_language_models_are_refused() -> None:
    batch = experiences([2, 2]).replace(
        sequences={"pair": np.array(["a", "a"], object), "chosen": np.array([True, False])}
    )
    with pytest.raises(TrainError, match="preference pairs train language models"):
        gradient(mixed_learner(MIXED, 0.5), batch)
    with pytest.raises(ConfigError, match="are for language models"):
        mixed_learner((TermConfig(loss="dpo", source="pairs"),), None)


# -- what counts -------------------------------------------------------------------------------------------------------


def test_padding_changes_nothing_bit_for_bit() -> None:
    batch = rows(40)
    short, long = (update(learner(), pad(batch, size))[0] for size in (SIZE, 128))
    assert int(short.steps) == 6
    assert_same(short, long)


def test_an_update_does_not_depend_on_the_size_of_earlier_batches() -> None:
    advantage = AdvantageConfig(kind="gae", normalise=False, normalise_batch=True)
    unbroken, resumed = (mixed_learner((TermConfig(loss="ppo_clip"),), None, advantage=advantage) for _ in range(2))
    state, _ = unbroken.train_batch(unbroken.init(0), experiences([7] * 400, 1), seed=0, progress=0.1)
    batch = experiences([9] * 40, 2)
    found = [of.train_batch(state, batch, seed=1, progress=0.2)[0] for of in (unbroken, resumed)]
    assert_same(*found)


def test_rows_without_weight_change_nothing_wherever_they_are_and_whatever_they_hold() -> None:
    batch = rows(40)
    scattered = {name: np.zeros((SIZE, *column.shape[1:]), column.dtype) for name, column in batch.items()}
    places = np.sort(np.random.default_rng(5).choice(SIZE, 40, replace=False))
    others = np.setdiff1d(np.arange(SIZE), places)
    for name, column in batch.items():
        scattered[name][places] = column
    for name in ("observation", "logp", "advantage", "target", "value"):
        scattered[name][others] = np.nan
    state, metrics = update(learner(), scattered)
    assert_same(state, update(learner(), pad(batch, SIZE))[0])
    assert metrics["skipped"] == 0.0
    assert all(np.isfinite(value) for value in metrics.values())


def test_a_batch_without_weight_leaves_everything_as_it_was() -> None:
    of = learner()
    state, metrics = update(of, {**rows(SIZE), "weight": np.zeros(SIZE, np.float32)})
    assert_same(state, of.init(0))
    assert all(np.isfinite(value) for value in metrics.values())


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    first, again, other = (update(learner(), rows(SIZE), seed=seed)[0] for seed in (1, 1, 2))
    assert_same(first, again)
    assert any((np.asarray(first.params[name]) != np.asarray(other.params[name])).any() for name in first.params)


def test_accumulation_gives_the_gradient_of_the_whole_minibatch() -> None:
    plain, parts = learner(), learner(accumulate=4)
    batch = pad(rows(40), SIZE)
    (state, metrics), (other, other_metrics) = update(plain, batch), update(parts, batch)
    for name, weight in state.params.items():
        np.testing.assert_allclose(weight, other.params[name], rtol=1e-4, atol=1e-5)
    for name, value in metrics.items():
        assert other_metrics[name] == pytest.approx(value, rel=1e-3, abs=1e-4)


def test_a_batch_that_is_not_whole_minibatches_is_refused() -> None:
    with pytest.raises(TrainError, match="17 rows"):
        learner().update(learner().init(0), rows(17), key_of(0), jnp.float32(0))


# -- what is skipped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["observation", "target"])
def test_a_bad_row_costs_its_own_minibatch_and_is_counted(column: str) -> None:
    of = learner()
    batch = rows(SIZE)
    batch[column][3] = np.nan
    state, metrics = update(of, batch)
    assert metrics["skipped"] == 2.0  # one minibatch in each of two epochs
    assert metrics["optimizer_steps"] == 6.0
    assert all(np.isfinite(weight).all() for weight in state.params.values())
    assert all(np.isfinite(value) for value in metrics.values())


def test_a_batch_of_nothing_but_nan_touches_neither_weights_nor_optimizer() -> None:
    of = learner()
    before = update(of, rows(SIZE))[0]
    bad = {**rows(SIZE), "advantage": np.full(SIZE, np.inf, np.float32)}
    state, metrics = update(of, bad, before)
    assert_same(state.params, before.params)
    assert_same(state.optimizer, before.optimizer)
    assert int(state.steps) == int(before.steps)
    assert int(state.skipped) == metrics["skipped"] == 8
    state, _ = update(of, rows(SIZE), state)
    assert int(state.skipped) == 0


def test_too_many_skipped_steps_in_a_row_stop_the_run() -> None:
    of = learner()  # max_skipped is 10
    bad = experiences([SIZE])
    bad.steps["reward"][:] = np.nan
    state, _ = of.train_batch(of.init(0), bad, seed=0, progress=0.0)
    with pytest.raises(TrainError, match="last 16 optimizer steps were skipped"):
        of.train_batch(state, bad, seed=0, progress=0.0)


def test_equal_advantages_give_finite_steps_without_policy_gradient() -> None:
    batch = {**rows(SIZE), "advantage": np.full(SIZE, 7.0, np.float32)}
    _, metrics = update(learner(), batch)
    assert metrics["skipped"] == 0.0
    assert metrics["ppo_clip"] == pytest.approx(0.0, abs=1e-4)


def test_the_kl_bound_ends_the_epochs() -> None:
    of = learner(kl_stop=1e-6)
    batch = rows(SIZE)
    logits, _ = of.network.apply(of.init(0).params, batch["observation"])
    log_probs = jax.nn.log_softmax(jnp.where(batch["legal"], logits, -1e9))
    batch["logp"] = np.asarray(log_probs[:, 0])
    state, metrics = update(of, batch)
    assert metrics["kl_stopped"] == 1.0
    assert int(state.steps) == 1  # on-policy at first; over the bound at the second minibatch, which is not taken
    assert int(state.skipped) == 0


# -- schedules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("constant", (1.0, 1.0, 1.0)), ("linear", (1.0, 0.55, 0.1)), ("cosine", (1.0, 0.55, 0.1))],
)
def test_the_learning_rate_follows_the_progress_of_the_run(schedule: Any, expected: tuple[float, ...]) -> None:
    config = OptimizerConfig(learning_rate=0.5, schedule=schedule, final_fraction=0.1)
    rates = [learning_rate(config, progress) for progress in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(rates, 0.5 * np.array(expected), rtol=1e-5)


def test_the_warm_up_rises_from_zero_and_then_follows_the_schedule() -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule="linear", final_fraction=0.0, warmup_fraction=0.2)
    rates = [learning_rate(config, progress) for progress in (0.0, 0.1, 0.2, 0.6, 1.0, 1.5)]
    np.testing.assert_allclose(rates, [0.0, 0.5, 1.0, 0.5, 0.0, 0.0], atol=1e-6)


def test_an_update_reports_the_rate_it_used() -> None:
    assert update(learner(), rows(SIZE), progress=1.0)[1]["learning_rate"] == pytest.approx(0.01)


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd", "rmsprop"])
def test_every_optimizer_goes_downhill_and_decays_weights_on_request(kind: Any) -> None:
    for weight_decay in (0.0, 0.1):
        optimizer = build_optimizer(OptimizerConfig(kind=kind, weight_decay=weight_decay))
        x = jnp.array([3.0, -2.0, 0.0])
        direction, _ = optimizer.update(jnp.array([1.0, -1.0, 0.0]), optimizer.init(x), x)
        assert direction[0] > 0 > direction[1]
    idle, _ = optimizer.update(jnp.zeros(3), optimizer.init(x), x)
    assert idle[0] > 0


# -- state -------------------------------------------------------------------------------------------------------------


def test_the_state_survives_the_round_trip_through_tensors_bit_for_bit() -> None:
    of = learner()
    state, _ = update(of, rows(SIZE))
    tensors = of.state_tensors(state)
    assert tensors["weights"].keys() == state.params.keys()
    assert "0.mu.torso.0.kernel" in tensors["optimizer"]
    restored = of.state_from_tensors(tensors)
    assert jax.tree.structure(restored) == jax.tree.structure(state)
    assert_same(restored, state)
    assert_same(update(of, rows(SIZE), restored)[0], update(of, rows(SIZE), state)[0])


def test_tensors_of_another_network_are_refused_by_name() -> None:
    of = learner()
    tensors = of.state_tensors(of.init(0))
    tensors["weights"]["torso.0.kernel"] = np.zeros((1, 1), np.float32)
    del tensors["weights"]["torso.0.bias"]
    with pytest.raises(CorruptRecord, match=r"torso\.0\.bias is missing; torso\.0\.kernel is float32\[1, 1\]"):
        of.state_from_tensors(tensors)


def test_a_fresh_state_may_be_donated() -> None:
    of = learner()
    donated = jax.jit(lambda state: state, donate_argnums=(0,))(of.init(0))
    assert_same(donated, of.init(0))


# -- ragged experience -------------------------------------------------------------------------------------------------


def test_a_ragged_batch_trains_like_its_flat_rows() -> None:
    of = learner()
    batch = experiences([25, 30, 1, 24], all_chosen=False)
    state, metrics = of.train_batch(of.init(0), batch, seed=3, progress=0.25)
    assert metrics["rows"] == batch.steps["mask"].sum()
    assert all(isinstance(value, float) for value in metrics.values())
    again, _ = of.train_batch(of.init(0), batch, seed=3, progress=0.25)
    assert_same(state, again)


def test_elements_that_the_policy_did_not_choose_are_not_trained_on() -> None:
    of = learner()
    batch = experiences([40, 38], all_chosen=False)
    poisoned = {name: column.copy() for name, column in batch.steps.items()}
    poisoned["observation"][~batch.steps["mask"]] = np.nan
    poisoned["logp"][~batch.steps["mask"]] = np.nan
    state, metrics = of.train_batch(of.init(0), batch.replace(steps=poisoned), seed=0, progress=0.0)
    assert_same(state, of.train_batch(of.init(0), batch, seed=0, progress=0.0)[0])
    assert metrics["skipped"] == 0.0


def test_vtrace_judges_by_the_current_weights() -> None:
    of = learner(kind="vtrace")
    batch = experiences([30, 34])
    stale = batch.replace(steps={"value": np.full(SIZE, 100.0, np.float32)})
    state, _ = of.train_batch(of.init(0), batch, seed=0, progress=0.0)
    assert_same(state.params, of.train_batch(of.init(0), stale, seed=0, progress=0.0)[0].params)


def test_token_sequences_are_refused_with_a_reason() -> None:
    batch = experiences([4])
    steps = {name: column for name, column in batch.steps.items() if name != "observation"}
    with pytest.raises(TrainError, match="without observations"):
        learner().train_batch(
            learner().init(0), Experiences(sequences=batch.sequences, offsets=batch.offsets, steps=steps), 0, 0.0
        )


def test_batch_sizes_fall_into_few_buckets() -> None:
    sizes = {bucket(count, 256) for count in range(1, 100_001, 37)}
    assert len(sizes) <= 56
    for count in (1, 256, 257, 5000, 100_000):
        assert count <= bucket(count, 256) <= max(256, 2 * count + 256)
        assert bucket(count, 256) % 256 == 0


def test_an_unresolved_or_impossible_config_is_refused() -> None:
    network = learner().network
    with pytest.raises(ConfigError, match="not resolved"):
        JaxLearner(network, TrainConfig())
    with pytest.raises(ConfigError, match="does not divide"):
        learner(accumulate=3)


# -- learning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy_loss", ["ppo_clip", "reinforce"])
def test_a_policy_finds_the_best_arm_of_a_bandit(policy_loss: str) -> None:
    """One state, three arms, the last one illegal."""
    of = learner(policy_loss=policy_loss)
    state, random = of.init(0), np.random.default_rng(0)
    observation, legal = np.ones((SIZE, FEATURES), np.float32), np.tile([True, True, False], (SIZE, 1))
    policy = jax.jit(
        lambda params: jax.nn.log_softmax(jnp.where(legal, of.network.apply(params, observation)[0], -1e9))
    )
    for number in range(30):
        log_probs = np.asarray(policy(state.params))
        action = (random.random(SIZE) < np.exp(log_probs[0, 1])).astype(np.int32)
        reward = np.where(action == 1, 1.0, 0.2).astype(np.float32)
        batch = {
            "observation": observation, "legal": legal, "action": action, "weight": np.ones(SIZE, np.float32),
            "logp": log_probs[np.arange(SIZE), action], "advantage": reward, "target": reward,
            "value": np.zeros(SIZE, np.float32),
        }  # fmt: skip
        state, _ = update(of, batch, state, seed=number)
    assert np.exp(policy(state.params))[0, 1] > 0.9
