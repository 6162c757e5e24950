"""Objectives: a weighted list of terms, whatever the terms are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config.learn import TermConfig
from ludus.errors import ConfigError
from ludus.train.losses import LossInputs
from ludus.train.objective import build_objective

TERMS = (
    TermConfig(loss="ppo_clip", options={"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0}),
    TermConfig(loss="value", weight=0.5, options={"clip": 0.2}),
    TermConfig(loss="entropy", weight=0.01),
    TermConfig(loss="kl", weight=0.1, options={"estimator": "k3"}),
)


def inputs(mask: np.ndarray, seed: int = 0) -> LossInputs:
    random = np.random.default_rng(seed)
    names = ("logp", "old_logp", "advantage", "value", "old_value", "target", "entropy")
    return LossInputs(mask=mask, **{name: random.normal(size=mask.shape) for name in names})


def test_the_loss_is_the_weighted_sum_of_the_terms() -> None:
    loss, metrics = build_objective(TERMS)(inputs(np.ones(8)), 0.0)
    parts = (metrics["ppo_clip"], 0.5 * metrics["value"], 0.01 * metrics["entropy"], 0.1 * metrics["kl"])
    assert loss == pytest.approx(sum(parts))
    assert {"clip_fraction", "approx_kl"} <= metrics.keys()


def test_weights_move_linearly_from_start_to_end() -> None:
    objective = build_objective([TermConfig(loss="reinforce", weight=1.0, weight_end=0.2)])
    batch = inputs(np.ones(4))
    values = [
        objective(batch, progress)[0] / objective(batch, progress)[1]["reinforce"] for progress in (0.0, 0.5, 1.0)
    ]
    np.testing.assert_allclose(values, [1.0, 0.6, 0.2])


def test_more_entropy_is_a_smaller_loss() -> None:
    objective = build_objective([TermConfig(loss="entropy", weight=1.0)])
    low, high = (LossInputs(mask=np.ones(2), entropy=np.full(2, x)) for x in (0.1, 1.0))
    assert objective(high, 0.0)[0] < objective(low, 0.0)[0]


def test_the_same_loss_may_appear_twice() -> None:
    terms = [TermConfig(loss="kl", options={"estimator": k}) for k in ("k1", "k2")]
    _, metrics = build_objective(terms)(inputs(np.ones(4)), 0.0)
    assert {"kl_0", "kl_1"} <= metrics.keys()


def test_without_a_reference_policy_the_kl_is_to_the_behaviour_policy() -> None:
    objective = build_objective([TermConfig(loss="kl", options={"estimator": "k1"})])
    batch = inputs(np.ones(4))
    assert objective(batch, 0.0)[0] == pytest.approx((batch.logp - batch.old_logp).mean())


def test_unknown_losses_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        build_objective([TermConfig(loss="ppo"), TermConfig(loss="magic")])
    assert len(caught.value.problems) == 2
    assert "ppo_clip" in caught.value.problems[0]


def test_parts_add_up_to_the_whole() -> None:
    objective = build_objective(TERMS)
    mask = (np.random.default_rng(1).random(12) < 0.6).astype(float)
    whole = inputs(mask)
    normaliser = objective.normaliser(mask)
    fields = ("mask", "logp", "old_logp", "advantage", "value", "old_value", "target", "entropy")
    parts = [LossInputs(**{f: getattr(whole, f)[i : i + 4] for f in fields}) for i in range(0, 12, 4)]
    assert sum(objective(part, 0.0, normaliser)[0] for part in parts) == pytest.approx(objective(whole, 0.0)[0])


def test_nan_under_the_mask_reaches_neither_loss_nor_gradient() -> None:
    objective = build_objective(TERMS)
    mask = jnp.array([1.0, 1.0, 0.0])
    holes = jnp.array([0.5, -0.5, jnp.nan])

    def loss(logp: jax.Array, value: jax.Array) -> jax.Array:
        batch = LossInputs(
            mask=mask, logp=logp, old_logp=holes, advantage=holes, value=value, old_value=holes, target=holes,
            entropy=jnp.ones(3),
        )  # fmt: skip
        return objective(batch, 0.0)[0]

    value, gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(jnp.zeros(3), jnp.zeros(3))
    assert np.isfinite(value)
    for gradient in gradients:
        assert np.isfinite(gradient).all()
        assert gradient[2] == 0.0


def test_a_fully_masked_batch_has_loss_zero() -> None:
    loss, metrics = build_objective(TERMS)(inputs(np.zeros((3, 4))), 0.0)
    assert loss == 0.0
    assert all(value == 0.0 for value in metrics.values())
