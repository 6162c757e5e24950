"""The learner of chess networks: it learns, resumes to the bit, and survives bad numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from ludus import parse_config
from ludus.chess.learner import ChessBatch, ChessLearner, find_devices
from ludus.config import AlgorithmConfig, TrainConfig, resolve
from ludus.config.sections.chess import (
    ChessAttentionConfig,
    ChessHeadsConfig,
    ChessResidualConfig,
    ChessValueHeadConfig,
    SmolgenConfig,
)
from ludus.config.sections.train_presets import CHESS
from ludus.errors import ConfigError, TrainError
from ludus.policies.networks import PolicyNetwork

TOWER = ChessResidualConfig(
    kind="chess_residual",
    blocks=1,
    filters=8,
    squeeze=4,
    norm="frozen",
    heads=ChessHeadsConfig(
        policy={"vanilla": {"kind": "convolution"}},  # type: ignore[dict-item]
        value={"winner": ChessValueHeadConfig(channels=4, inner=8)},
    ),
)
BODY = ChessAttentionConfig(
    kind="chess_attention",
    layers=1,
    width=16,
    heads_per_layer=2,
    position=2,
    smolgen=SmolgenConfig(compressed=2, inner=8, size=4),
)


def make_train(**changes: Any) -> TrainConfig:
    algorithm = AlgorithmConfig(preset="chess", advantage=CHESS.advantage, objective=CHESS.objective)
    optimizer = {"kind": "nadamw", "learning_rate": 0.01, "schedule": "constant", "weight_decay": 0.01}
    return TrainConfig.model_validate(
        {"minibatch": 8, "epochs": 1, "optimizer": optimizer, **changes, "algorithm": algorithm}
    )


@cache
def make_learner(**changes: Any) -> ChessLearner:
    network = PolicyNetwork(TOWER, observation_shape=(112, 8, 8), actions=1858, layout="channels_first")
    return ChessLearner(network, make_train(**changes))


def make_batch(rows: int, seed: int = 0) -> ChessBatch:
    """Positions whose best move and result can be read off a plane."""
    generator = np.random.default_rng(seed)
    planes = (generator.random((rows, 112, 8, 8)) < 0.1).astype(np.float32)
    side = generator.integers(0, 2, rows)
    planes[:, 0] = side[:, None, None]
    policy = np.full((rows, 1858), -1.0, np.float32)
    policy[:, :20] = 0.0
    policy[np.arange(rows), np.where(side, 3, 11)] = 1.0
    values = np.full((rows, 6, 3), np.nan, np.float32)
    values[:, 0] = np.stack([side * 2.0 - 1.0, np.zeros(rows), np.full(rows, 40.0)], -1)
    return ChessBatch(planes, policy, values)


@pytest.mark.slow
def test_it_learns_and_the_held_out_positions_show_it() -> None:
    learner, held_out = make_learner(), make_batch(64, seed=9)
    state = learner.init(0)
    before = learner.validate(state, held_out)
    for update in range(24):
        state, metrics = learner.train_batch(state, make_batch(16, seed=update + 20), update, 0.0)
    after = learner.validate(state, held_out)
    assert after["policy_top1"] > 0.95 > before["policy_top1"]
    assert after["wdl_accuracy"] > 0.95
    assert after["wdl_brier"] < before["wdl_brier"]
    assert after["chess_policy"] < before["chess_policy"]
    assert metrics["optimizer_steps"] == 2
    assert int(state.steps) == 48
    frozen = {name for name in state.params if name.endswith((".mean", ".variance"))}
    assert frozen
    fresh = learner.init(0).params
    assert all(np.array_equal(state.params[name], fresh[name]) for name in frozen)


@pytest.mark.slow
def test_a_resumed_learner_has_the_same_bits() -> None:
    learner = make_learner()
    state, _ = learner.train_batch(learner.init(0), make_batch(16), 0, 0.0)
    again = learner.state_from_tensors(learner.state_tensors(state))
    one, _ = learner.train_batch(state, make_batch(16, seed=1), 1, 0.5)
    two, _ = learner.train_batch(again, make_batch(16, seed=1), 1, 0.5)
    for name in one.params:
        np.testing.assert_array_equal(one.params[name], two.params[name])


@pytest.mark.slow
def test_accumulated_gradients_are_those_of_the_whole_minibatch() -> None:
    batch = make_batch(16)
    batch.policy[2], batch.values[5] = np.nan, np.nan
    states = []
    for learner in (make_learner(), make_learner(accumulate=4)):
        states.append(learner.train_batch(learner.init(0), batch, 0, 0.0))
    (one, first), (two, second) = states
    assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)
    assert first["grad_norm"] == pytest.approx(second["grad_norm"], rel=1e-4)
    for name in one.params:
        np.testing.assert_allclose(one.params[name], two.params[name], atol=2e-3, err_msg=name)


def test_a_minibatch_that_is_not_finite_changes_nothing_and_is_counted() -> None:
    learner, good = make_learner(), make_batch(16)
    bad = ChessBatch(np.full_like(good.planes, np.inf), *good[1:])
    states = []
    for first, second in ((good, bad), (bad, good)):
        batch = ChessBatch(*(np.concatenate([one[:8], two[:8]]) for one, two in zip(first, second, strict=True)))
        state, metrics = learner.train_batch(learner.init(0), batch, 0, 0.0)
        assert (metrics["optimizer_steps"], metrics["skipped"]) == (1, 1)
        assert metrics["skipped_in_a_row"] == (second is bad)
        assert all(np.isfinite(value) for value in metrics.values())
        states.append(state)
    for name in states[0].params:
        np.testing.assert_array_equal(states[0].params[name], states[1].params[name])
    state = states[1]
    for _ in range(4):
        state, _ = learner.train_batch(state, bad, 0, 0.0)
    with pytest.raises(TrainError, match="were skipped: the planes of position 0 of the batch are not finite"):
        learner.train_batch(state, bad, 0, 0.0)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("policy.", r"chess_policy \(head vanilla\) is not finite, although the positions are: lower train"),
        ("value.", r"chess_value \(head winner\) is not finite, although the positions are: lower train"),
        ("", r"chess_policy \(head vanilla\) and chess_value .* and chess_moves_left \(head main\) are not finite"),
    ],
)
def test_skipped_steps_name_the_terms_that_were_not_finite(broken: str, reason: str) -> None:
    learner = make_learner()
    state = learner.init(0)
    params = {name: np.full_like(x, np.nan) if name.startswith(broken) else x for name, x in state.params.items()}
    state = state._replace(params=params)
    for _ in range(4):
        state, metrics = learner.train_batch(state, make_batch(16))
        assert not [name for name in metrics if name.startswith("not_finite")]
    with pytest.raises(TrainError, match=f"^the last 10 optimizer steps were skipped: {reason}"):
        learner.train_batch(state, make_batch(16))


def test_skipped_steps_name_the_position_whose_target_is_infinite() -> None:
    learner, batch = make_learner(), make_batch(16)
    batch.policy[4, 3] = np.inf  # once in each minibatch
    batch.policy[12, 3] = np.inf
    state = learner.init(0)
    for _ in range(4):
        state, _ = learner.train_batch(state, batch)
    with pytest.raises(TrainError, match=r"the policy targets of position 4 of the batch are not finite"):
        learner.train_batch(state, batch)


def test_averaged_weights_are_published_and_the_newest_are_kept() -> None:
    train = make_train(swa={"every": 1, "most": 3})
    network = PolicyNetwork(TOWER, observation_shape=(112, 8, 8), actions=1858, layout="channels_first")
    learner = ChessLearner(network, train)
    state, seen = learner.init(0), []
    for update in range(3):
        state, _ = learner.train_batch(state, make_batch(8, seed=update), update, 0.0)
        seen.append(np.asarray(state.params["value.winner.wdl.bias"]))
    tensors = learner.state_tensors(state)
    np.testing.assert_allclose(tensors["weights"]["value.winner.wdl.bias"], np.mean(seen, axis=0), atol=1e-6)
    again = learner.state_from_tensors(tensors)
    np.testing.assert_array_equal(again.params["value.winner.wdl.bias"], seen[-1])
    assert int(again.average.updates) == 3  # type: ignore[union-attr]


def test_batches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TrainError, match="12 positions is not a whole number of minibatches of 8"):
        make_learner().train_batch(make_learner().init(0), make_batch(12), 0, 0.0)
    with pytest.raises(ConfigError, match="does not divide"):
        make_learner(accumulate=3)


@pytest.mark.slow
def test_an_attention_body_learns_too() -> None:
    network = PolicyNetwork(BODY, observation_shape=(112, 8, 8), actions=1858, layout="channels_first")
    learner = ChessLearner(network, make_train())
    state = learner.init(0)
    losses = []
    for update in range(8):
        state, metrics = learner.train_batch(state, make_batch(32, seed=update), update, 0.0)
        losses.append(metrics["loss"])
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.slow
def test_two_devices_compute_what_one_computes() -> None:
    batch = make_batch(16)
    batch.policy[2], batch.values[5] = np.nan, np.nan
    network, found = make_learner().network, []
    for count in (1, 2):
        learner = ChessLearner(network, make_train(), devices=find_devices(count))
        state, metrics = learner.train_batch(learner.init(0), batch, 0, 0.0)
        found.append((learner.state_tensors(state)["weights"], metrics, learner.validate(state, make_batch(8, seed=3))))
    (one, metrics, measured), (two, metrics2, measured2) = found
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-4, atol=1e-6, err_msg=name)
    assert metrics == pytest.approx(metrics2, rel=1e-4)
    assert measured == pytest.approx(measured2, rel=1e-4)
    assert not all(np.array_equal(one[name], learner.network.init(0)[name]) for name in one)


def test_more_devices_than_there_are_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"train.trainers: 64 need as many devices, and there are \d+"):
        find_devices(64)


def test_trainers_that_cannot_share_a_minibatch_are_refused_by_the_check() -> None:
    text = """
name: chess
games: [chess:standard]
topology: split
mode: train
policy: {network: {kind: chess_residual, blocks: 1, filters: 8}}
buffer: {loader: {kind: chess_chunks, options: {directory: chunks}}}
train: {minibatch: 16, trainers: 3, algorithm: {preset: chess}}
"""
    with pytest.raises(ConfigError, match=r"train.trainers: 3 trainers cannot share train.minibatch 16 evenly"):
        resolve(parse_config(text, "chess.yaml"))
    assert resolve(parse_config(text.replace("trainers: 3", "trainers: 2, swa: {}"), "chess.yaml")).train.trainers == 2
