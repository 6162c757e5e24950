"""Optimizers against torch, decay by the names of weights, rates piece by piece, and averaged weights."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from ludus.config import OptimizerConfig, SwaConfig
from ludus.train.learners import begun_with
from ludus.train.optimizers import build_optimizer, decay_mask, learning_rate
from ludus.train.swa import averaged, published, start_average, unpublished

RATE = 0.05


def descend(config: OptimizerConfig, mask: np.ndarray | None = None, steps: int = 12) -> np.ndarray:
    """Weights after some steps down a fixed sequence of gradients."""
    optimizer = build_optimizer(config, mask)
    weights = jnp.linspace(-1.0, 1.0, 6)
    state = optimizer.init(weights)
    for gradient in np.random.default_rng(0).normal(size=(steps, 6)).astype(np.float32):
        direction, state = optimizer.update(jnp.asarray(gradient), state, weights)
        weights = weights - RATE * direction
    return np.asarray(weights)


def torch_descends(make: type[torch.optim.Optimizer], steps: int = 12, **options: object) -> np.ndarray:
    weights = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 6))
    optimizer = make([weights], lr=RATE, **options)  # type: ignore[call-arg]
    for gradient in np.random.default_rng(0).normal(size=(steps, 6)).astype(np.float32):
        weights.grad = torch.tensor(gradient)
        optimizer.step()
    return weights.detach().numpy()


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_equals_torch(nesterov: bool) -> None:
    ours = descend(OptimizerConfig(kind="sgd", momentum=0.9, nesterov=nesterov, weight_decay=0.1))
    theirs = torch_descends(torch.optim.SGD, momentum=0.9, nesterov=nesterov, weight_decay=0.1)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_adamw_with_other_betas_equals_torch() -> None:
    ours = descend(OptimizerConfig(kind="adamw", beta1=0.8, beta2=0.95, eps=1e-8, weight_decay=0.1))
    theirs = torch_descends(torch.optim.AdamW, betas=(0.8, 0.95), eps=1e-8, weight_decay=0.1)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_nadamw_equals_its_formula() -> None:
    """Dozat's: the mean of gradients looked up one step ahead, both moments without bias; decay apart from them."""
    config = OptimizerConfig(kind="nadamw", beta2=0.98, eps=1e-7, weight_decay=0.1)
    weights = np.linspace(-1.0, 1.0, 6)
    mean, square = np.zeros(6), np.zeros(6)
    for step, gradient in enumerate(np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32), 1):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.98 * square + 0.02 * gradient**2
        ahead = 0.9 * mean / (1 - 0.9 ** (step + 1)) + 0.1 * gradient / (1 - 0.9**step)
        direction = ahead / (np.sqrt(square / (1 - 0.98**step)) + 1e-7)
        weights = weights - RATE * (direction + 0.1 * weights)
    np.testing.assert_allclose(descend(config), weights, atol=1e-5)


def test_the_first_rule_that_fits_a_name_decides_what_decays() -> None:
    rules = ({"names": "keep.bias", "decays": True}, {"names": "*.bias"}, {"names": "*norm*"})
    config = OptimizerConfig.model_validate({"kind": "adamw", "weight_decay": 0.5, "decay_rules": rules})
    shapes = {"a.kernel": (2,), "a.bias": (1,), "keep.bias": (1,), "norm.scale": (2,)}
    mask = decay_mask(config, shapes)
    assert mask is not None
    np.testing.assert_array_equal(mask, [0, 1, 1, 1, 0, 0])  # a.bias, a.kernel, keep.bias, norm.scale
    plain = descend(config.model_copy(update={"weight_decay": 0.0}))
    masked, whole = descend(config, mask), descend(config)
    np.testing.assert_array_equal(masked[[0, 4, 5]], plain[[0, 4, 5]])
    np.testing.assert_array_equal(masked[1:4], whole[1:4])
    assert decay_mask(OptimizerConfig(weight_decay=0.5), shapes) is None


def test_rates_go_from_piece_to_piece_by_steps() -> None:
    pieces = (
        {"learning_rate": 1.0, "steps": 10, "shape": "linear"},
        {"learning_rate": 2.0, "steps": 10, "shape": "constant"},
        {"learning_rate": 4.0, "steps": 10, "shape": "cosine"},
        {"learning_rate": 1.0, "steps": 5},
    )
    config = OptimizerConfig.model_validate({"pieces": pieces})
    expected = {0: 1.0, 5: 1.5, 10: 2.0, 19: 2.0, 20: 4.0, 25: 2.5, 30: 1.0, 1000: 1.0}
    for step, rate in expected.items():
        assert float(learning_rate(config, 0.0, step)) == pytest.approx(rate), step


def test_rates_go_from_piece_to_piece_by_the_share_of_the_run() -> None:
    pieces = ({"learning_rate": 0.0001, "share": 0.1, "shape": "linear"}, {"learning_rate": 0.1, "share": 0.9})
    config = OptimizerConfig.model_validate({"pieces": pieces})
    assert float(learning_rate(config, 0.05, 7)) == pytest.approx(0.05005)
    assert float(learning_rate(config, 1.0, 7)) == pytest.approx(0.1)


def test_the_mean_is_plain_first_and_exponential_then() -> None:
    config = SwaConfig(every=2, most=2)
    average, seen = start_average({"w": jnp.zeros(1)}), []
    for update in range(1, 9):
        average = averaged(config, average, {"w": jnp.full(1, float(update))})
        seen.append(float(average.mean["w"][0]))
    assert seen == pytest.approx([0, 2, 2, 3, 3, 4.5, 4.5, 6.25])


def test_published_means_and_newest_weights_change_places_and_back() -> None:
    parts = {
        "weights": {"w": np.ones(2)},
        "optimizer": {"steps": np.array(3), "swa.w": np.zeros(2), "0.mu.w": np.full(2, 7.0)},
    }
    swapped = published(parts)
    np.testing.assert_array_equal(swapped["weights"]["w"], np.zeros(2))
    assert swapped["optimizer"].keys() == {"steps", "raw.w", "0.mu.w"}
    back = unpublished(swapped)
    assert back["optimizer"].keys() == parts["optimizer"].keys()
    np.testing.assert_array_equal(back["weights"]["w"], np.ones(2))
    started = unpublished(begun_with(swapped, {"w": np.full(2, 5.0)}))
    np.testing.assert_array_equal(started["weights"]["w"], np.full(2, 5.0))
    np.testing.assert_array_equal(started["optimizer"]["swa.w"], np.full(2, 5.0))
