"""Losses against independent implementations: rlax, and torch's own distributions."""

from __future__ import annotations

import warnings
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from ludus.train.arrays import log_softmax, masked_log_softmax, take_last
from ludus.train.losses import LOSSES, LossInputs, entropy, kl

RANDOM = np.random.default_rng(0)
LOGITS, OTHER = (RANDOM.normal(scale=2.0, size=(32, 6)).astype(np.float32) for _ in range(2))
ACTION = RANDOM.integers(6, size=32)
ADVANTAGE = RANDOM.normal(size=32).astype(np.float32)


@pytest.fixture(scope="module")
def rlax() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("rlax", reason="rlax is an oracle only; pip install rlax==0.1.9")


def test_the_clipped_surrogate_and_its_gradient_are_those_of_rlax(rlax: ModuleType) -> None:
    old = jnp.asarray(take_last(log_softmax(OTHER), ACTION))

    def logp(logits: jax.Array) -> jax.Array:
        return take_last(log_softmax(logits), jnp.asarray(ACTION))

    def mine(logits: jax.Array) -> jax.Array:
        inputs = LossInputs(mask=jnp.ones(32), logp=logp(logits), old_logp=old, advantage=jnp.asarray(ADVANTAGE))
        return LOSSES["ppo_clip"](inputs).loss.mean()

    def theirs(logits: jax.Array) -> jax.Array:
        return rlax.clipped_surrogate_pg_loss(jnp.exp(logp(logits) - old), jnp.asarray(ADVANTAGE), 0.2)

    found, expected = (jax.jit(jax.value_and_grad(f))(jnp.asarray(LOGITS)) for f in (mine, theirs))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Rlax softmax:PendingDeprecationWarning")
def test_the_policy_gradient_is_that_of_rlax(rlax: ModuleType) -> None:
    weights = jnp.ones(32)

    def mine(logits: jax.Array) -> jax.Array:
        logp = take_last(log_softmax(logits), jnp.asarray(ACTION))
        return LOSSES["reinforce"](LossInputs(mask=weights, logp=logp, advantage=jnp.asarray(ADVANTAGE))).loss.mean()

    def theirs(logits: jax.Array) -> jax.Array:
        return rlax.policy_gradient_loss(logits, jnp.asarray(ACTION), jnp.asarray(ADVANTAGE), weights)

    found, expected = (jax.jit(jax.value_and_grad(f))(jnp.asarray(LOGITS)) for f in (mine, theirs))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-6)


def test_log_probabilities_and_entropy_are_those_of_torch() -> None:
    theirs = Categorical(logits=torch.from_numpy(LOGITS))
    log_probs = log_softmax(LOGITS)
    np.testing.assert_allclose(entropy(log_probs), theirs.entropy(), rtol=1e-5)
    np.testing.assert_allclose(take_last(log_probs, ACTION), theirs.log_prob(torch.from_numpy(ACTION)), rtol=1e-5)


def test_masked_entropy_is_that_of_the_legal_actions_alone() -> None:
    legal = np.array([True, False, True, True, False, True])
    theirs = Categorical(logits=torch.from_numpy(LOGITS[:, legal])).entropy()
    np.testing.assert_allclose(entropy(masked_log_softmax(LOGITS, np.tile(legal, (32, 1)))), theirs, rtol=1e-5)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_unbiased_kl_estimators_have_the_exact_kl_as_expectation(estimator: str) -> None:
    mine, reference = (log_softmax(x.astype(np.float64)) for x in (LOGITS, OTHER))
    estimate = (np.exp(mine) * kl(mine, reference, estimator=estimator).loss).sum(-1)  # type: ignore[arg-type]
    exact = kl_divergence(*(Categorical(logits=torch.from_numpy(x.astype(np.float64))) for x in (LOGITS, OTHER)))
    np.testing.assert_allclose(estimate, exact, rtol=1e-6)


def test_k2_agrees_with_the_exact_kl_nearby() -> None:
    near = LOGITS + 0.01 * OTHER
    mine, reference = (log_softmax(x.astype(np.float64)) for x in (LOGITS, near))
    estimate = (np.exp(mine) * kl(mine, reference, estimator="k2").loss).sum(-1)
    exact = kl_divergence(*(Categorical(logits=torch.from_numpy(x.astype(np.float64))) for x in (LOGITS, near)))
    np.testing.assert_allclose(estimate, exact, rtol=0.05)


def test_the_value_loss_is_half_of_torchs_mean_squared_error() -> None:
    value, target = LOGITS[:, 0], OTHER[:, 0]
    theirs = 0.5 * torch.nn.functional.mse_loss(torch.from_numpy(value), torch.from_numpy(target), reduction="none")
    np.testing.assert_allclose(
        LOSSES["value"](LossInputs(mask=None, value=value, target=target)).loss, theirs, rtol=1e-6
    )
