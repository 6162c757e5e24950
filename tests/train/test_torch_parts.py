"""The parts of the PyTorch learner: optimizers, the vector of all weights, and minibatches of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import OptimizerConfig
from ludus.train import optimizers as jax_optimizer
from ludus.train.token_rows import minibatches, normalised, targets_of
from ludus.train.torch_state import MOMENTS, Layout, Leaves, init_moments, learning_rate, step

from .conftest import token_experiences


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", list(MOMENTS))
def test_optimizers_are_those_of_torch(kind: Any, decay: float) -> None:
    torch.manual_seed(0)
    config = OptimizerConfig(kind=kind, eps=1e-5, weight_decay=decay)
    mine, theirs = torch.randn(50), None
    theirs = torch.nn.Parameter(mine.clone())
    options = {"lr": 0.01, "weight_decay": decay, **({} if kind == "sgd" else {"eps": 1e-5})}
    kinds = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "rmsprop": "RMSprop"}
    other = getattr(torch.optim, kinds[kind])([theirs], **options)
    moments = init_moments(config, mine)
    for number in range(1, 6):
        gradient = torch.randn(50)
        theirs.grad = gradient.clone()
        other.step()
        step(config, mine, gradient, moments, number=number, rate=0.01)
    torch.testing.assert_close(mine, theirs.data, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("warmup", [0.0, 0.25])
def test_the_schedule_is_that_of_the_jax_learner(schedule: Any, warmup: float) -> None:
    config = OptimizerConfig(learning_rate=0.3, schedule=schedule, final_fraction=0.1, warmup_fraction=warmup)
    for progress in (-0.1, 0.0, 0.1, 0.25, 0.6, 1.0, 1.5):
        assert learning_rate(config, progress) == pytest.approx(
            float(jax_optimizer.learning_rate(config, progress)), rel=1e-5, abs=1e-8
        )


SHAPES = {"a": (2, 3), "norm": (3,), "b": (4, 3), "c": (1, 3)}


def test_weights_keep_their_names_and_values_in_any_layout() -> None:
    random = np.random.default_rng(0)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    for fused in ((), (("a", "b", "c"),), (("c", "b"),)):
        layout = Layout(SHAPES, fused)
        found = layout.unpack(layout.pack(tensors))
        assert list(found) == list(SHAPES)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(found[name], tensor)


def test_fused_weights_are_one_matrix_and_share_one_gradient() -> None:
    layout = Layout(SHAPES, (("a", "b", "c"), ("missing", "also missing")))
    vector = torch.arange(layout.size, dtype=torch.float32)
    leaves = Leaves(layout, vector)
    joined = leaves.fused(("a", "b", "c"))
    assert joined.shape == (7, 3)
    assert torch.equal(joined[2:6], leaves["b"])
    (joined.sum() + 2 * leaves["b"].sum() + leaves["norm"].sum()).backward()
    gradient = layout.unpack(leaves.gradient)
    assert (gradient["a"] == 1).all()
    assert (gradient["b"] == 3).all()
    assert (gradient["norm"] == 1).all()
    leaves.clear_gradient()
    assert not leaves.gradient.any()
    vector.zero_()
    assert not leaves["a"].any()  # a view, not a copy
    with pytest.raises(KeyError):
        leaves.fused(("a", "b"))


def test_every_epoch_deals_every_row_once_in_minibatches_of_nearly_equal_size() -> None:
    dealt = list(minibatches(10, 4, epochs=2, seed=5))
    assert [len(part) for part in dealt] == [4, 3, 3] * 2
    for epoch in (dealt[:3], dealt[3:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(10))
    assert (np.concatenate(dealt[:3]) != np.concatenate(dealt[3:])).any()
    again = list(minibatches(10, 4, epochs=2, seed=5))
    assert all((one == other).all() for one, other in zip(dealt, again, strict=True))
    assert list(minibatches(0, 4, epochs=2, seed=5)) == []


def test_targets_are_laid_out_row_by_row() -> None:
    rows = token_experiences(rows=3, turns=2)
    targets = targets_of(rows)
    padded = targets.padded(rows.steps["logp"])
    for row in range(3):
        part = slice(int(rows.offsets[row]), int(rows.offsets[row + 1]))
        own = rows.steps["logp"][part][rows.steps["mask"][part]]
        np.testing.assert_array_equal(padded[row, : len(own)], own)
        assert not padded[row, len(own) :].any()
        assert targets.mask[row].sum() == len(own)


def test_advantages_are_normalised_over_what_the_policy_sampled() -> None:
    mask = np.array([False, True, True, False, True])
    found = normalised(np.array([9.0, 1.0, 2.0, 9.0, 6.0], np.float32), mask)
    np.testing.assert_allclose([found[mask].mean(), found[mask].std()], [0.0, 1.0], atol=1e-6)
    assert not found[~mask].any()
    assert not normalised(np.full(5, 3.0, np.float32), mask).any()
