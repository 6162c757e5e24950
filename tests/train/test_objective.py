"""Objectives: a weighted list of terms, whatever the terms are."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config import MuConfig, TermConfig
from ludus.errors import ConfigError
from ludus.train.aggregation import AGGREGATIONS, Aggregation, constant_norm
from ludus.train.loss_inputs import LossInputs
from ludus.train.objective import build_objective
from ludus.train.schedules import mu_at
from ludus.train.sources import EXPERT, ON_POLICY

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
    scales = objective.scales(mask)
    fields = ("mask", "logp", "old_logp", "advantage", "value", "old_value", "target", "entropy")
    parts = [LossInputs(**{f: getattr(whole, f)[i : i + 4] for f in fields}) for i in range(0, 12, 4)]
    assert sum(objective(part, 0.0, scales)[0] for part in parts) == pytest.approx(objective(whole, 0.0)[0])


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


# -- sources -----------------------------------------------------------------------------------------------------------

MIX = (
    TermConfig(loss="reinforce", share="rest"),
    TermConfig(loss="sft", source="expert", share="mu"),
    TermConfig(loss="entropy", source="any", weight=0.1),
)
SOURCE = np.array([ON_POLICY, EXPERT, ON_POLICY, EXPERT, EXPERT])


def tokens(seed: int = 0) -> LossInputs:
    """Rows of different lengths, one of them empty."""
    random = np.random.default_rng(seed)
    mask = (random.random((5, 6)) < 0.7).astype(float)
    mask[3] = 0.0
    return replace(inputs(mask, seed), source=SOURCE)


def of_rows(whole: LossInputs, rows: Any) -> LossInputs:
    return replace(whole, **{f.name: x[rows] for f in fields(whole) if (x := getattr(whole, f.name)) is not None})


@pytest.mark.parametrize("aggregation", [*AGGREGATIONS.values(), constant_norm(6.0)])
def test_a_term_sees_and_is_averaged_over_the_rows_of_its_source_alone(aggregation: Aggregation) -> None:
    objective, whole = build_objective(MIX, aggregation, MuConfig(peak=0.3)), tokens()
    loss, metrics = objective(whole, 0.5)
    own, expert = of_rows(whole, SOURCE == ON_POLICY), of_rows(whole, SOURCE == EXPERT)
    assert metrics["reinforce"] == pytest.approx(aggregation(-own.advantage * own.logp, own.mask))
    assert metrics["sft"] == pytest.approx(aggregation(-expert.logp, expert.mask))
    assert metrics["entropy"] == pytest.approx(aggregation(-whole.entropy, whole.mask))
    assert loss == pytest.approx(0.7 * metrics["reinforce"] + 0.3 * metrics["sft"] + 0.1 * metrics["entropy"])


@pytest.mark.parametrize("aggregation", [*AGGREGATIONS.values(), constant_norm(6.0)])
def test_rows_of_several_sources_add_up_however_they_are_cut(aggregation: Aggregation) -> None:
    objective, whole = build_objective(MIX, aggregation, MuConfig(peak=0.3)), tokens()
    scales = objective.scales(whole.mask, whole.source)
    expected, metrics = objective(whole, 0.0)
    parts = [objective(of_rows(whole, rows), 0.0, scales) for rows in ([0], [2, 1], [3], [4])]
    assert sum(loss for loss, _ in parts) == pytest.approx(expected)
    for name, value in metrics.items():
        assert sum(found[name] for _, found in parts) == pytest.approx(value), name


def test_a_term_whose_rows_are_not_there_is_passed_over() -> None:
    whole = replace(tokens(), source=None)
    loss, metrics = build_objective(MIX, mu=MuConfig(peak=0.3))(whole, 0.0)
    assert "sft" not in metrics
    assert loss == pytest.approx(0.7 * metrics["reinforce"] + 0.1 * metrics["entropy"])
    nobody = replace(tokens(), source=np.full(5, ON_POLICY))
    assert build_objective(MIX, mu=MuConfig(peak=0.3))(nobody, 0.0)[1]["sft"] == 0.0


def test_a_share_without_mu_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no mu"):
        build_objective(MIX)


def test_which_rows_need_the_model_before_training_is_known() -> None:
    terms = (
        TermConfig(loss="dpo", source="pairs"),
        TermConfig(loss="kl", source="expert", options={"reference": "base"}),
        TermConfig(loss="kl", weight=0.0, options={"reference": "base"}),
        TermConfig(loss="kl"),
    )
    objective = build_objective(terms)
    assert objective.needs_reference == {"pairs", "expert"}
    assert objective.sources == {"pairs", "expert", "on_policy"}


# -- mu ----------------------------------------------------------------------------------------------------------------

CHORD = MuConfig(peak=0.8, valley=0.2, warmup_fraction=0.25, decay_fraction=0.5)


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0.0, 0.0), (0.125, 0.4), (0.25, 0.8), (0.5, 0.5), (0.75, 0.2), (1.0, 0.2), (0.249, 0.7968)],
)
def test_mu_rises_falls_and_stays(progress: float, expected: float) -> None:
    assert mu_at(CHORD, progress) == pytest.approx(expected)
    assert float(jax.jit(lambda x: mu_at(CHORD, x))(progress)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_without_warm_up_and_decay_mu_is_level(progress: float) -> None:
    for config in (MuConfig(peak=0.3), MuConfig(peak=0.9, valley=0.3)):
        assert mu_at(config, progress) == pytest.approx(0.3)
        assert float(mu_at(config, jnp.float32(progress))) == pytest.approx(0.3)
    falls = MuConfig(peak=0.9, valley=0.1, decay_fraction=0.5)
    assert mu_at(falls, 0.0) == 0.9
