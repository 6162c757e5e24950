"""Losses: equal on NumPy, JAX and torch, gradients too, and right in the cases that others got wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from ludus.train.aggregation import sequence_mean_token_mean
from ludus.train.arrays import masked_log_softmax, stop_gradient, take_last
from ludus.train.losses import LOSSES, LossInputs, entropy, kl

CASES: dict[str, list[dict[str, Any]]] = {
    "ppo_clip": [
        {},
        {"clip_low": 0.2, "clip_high": 0.28},
        {"dual_clip": 3.0},
        {"clip_low": None, "clip_high": None},
        {"level": "sequence"},
        {"importance": "truncate"},
        {"importance": "mask", "importance_level": "sequence", "importance_low": 0.5, "importance_high": None},
    ],
    "reinforce": [{}, {"importance": "truncate", "importance_high": 1.1}],
    "cispo": [{}, {"clip_low": 0.2, "clip_high": None}, {"importance": "truncate"}],
    "sapo": [{}, {"tau_positive": 2.0, "tau_negative": 4.0}, {"importance": "mask", "importance_low": 0.5}],
    "topr": [{}, {"level": "token", "threshold": 0.5}],
    "opmd": [{}, {"tau": 3.0}],
    "sppo": [{}, {"epsilon": 1.0}],
    "sft": [{}, {"weighting": "is"}, {"weighting": "phi"}, {"weighting": "phi", "cutoff": 0.5}],
    "dpo": [{}, {"beta": 2.0, "label_smoothing": 0.1}],
    "value": [{"clip": None}, {"clip": 0.2}],
    "entropy": [{}],
    "kl": [
        {"estimator": "k1"},
        {"estimator": "k2"},
        {"estimator": "k3"},
        {"cap": 0.1},
        {"reference": "base", "importance": "ratio"},
    ],
}


def ratio_loss(name: str) -> Callable[..., Any]:
    """A loss as a function of what it compares: new and old log-probabilities, and advantages."""

    def loss(logp: Any, old_logp: Any, advantage: Any, **options: Any) -> Any:
        mask = np.ones(logp.shape, np.float32)
        return LOSSES[name](LossInputs(mask=mask, logp=logp, old_logp=old_logp, advantage=advantage), **options)

    return loss


ppo_clip, cispo, sapo, sppo = map(ratio_loss, ("ppo_clip", "cispo", "sapo", "sppo"))


def sft(logp: Any, **options: Any) -> Any:
    return LOSSES["sft"](LossInputs(mask=np.ones(logp.shape), logp=logp), **options)


def dpo(logp: Any, ref_logp: Any, mask: Any, partner: Any, chosen: Any, **options: Any) -> Any:
    inputs = LossInputs(mask=mask, logp=logp, ref_logp=ref_logp, partner=partner, chosen=chosen)
    return LOSSES["dpo"](inputs, **options)


def value_loss(value: Any, target: Any, old: Any, **options: Any) -> Any:
    return LOSSES["value"](LossInputs(mask=np.ones(value.shape), value=value, target=target, old_value=old), **options)


EVERY_CASE = [(name, options) for name, cases in CASES.items() for options in cases]
SHAPES = [(7,), (3, 5)]


def columns(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    names = ("logp", "old_logp", "start_logp", "ref_logp", "advantage", "value", "old_value", "target", "entropy")
    return {name: random.normal(size=shape).astype(np.float32) for name in names}


def evaluate(name: str, options: dict[str, Any], as_array: Callable[[Any], Any], arrays: dict[str, Any]) -> Any:
    rows = arrays["logp"].shape[0]
    per_row = {"partner": np.arange(rows)[::-1].copy(), "chosen": np.arange(rows) < rows // 2}
    mask = (np.random.default_rng(1).random(arrays["logp"].shape) < 0.7).astype(np.float32)
    mask[1] = 0.0
    inputs = LossInputs(mask=as_array(mask), **arrays, **{key: as_array(x) for key, x in per_row.items()})
    return LOSSES[name](inputs, **options)


def test_every_loss_has_a_case() -> None:
    assert CASES.keys() == LOSSES.keys()


@pytest.mark.parametrize(("name", "options"), EVERY_CASE)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loss_is_the_same_number_on_numpy_jax_and_torch(name: str, options: Any, shape: Any) -> None:
    plain = columns(shape)
    results = [
        evaluate(name, options, convert, {key: convert(x) for key, x in plain.items()})
        for convert in (np.asarray, jnp.asarray, torch.from_numpy)
    ]
    for result in results:
        assert tuple(result.loss.shape) == shape
        np.testing.assert_allclose(np.asarray(result.loss), results[0].loss, rtol=1e-5, atol=1e-6)
        assert result.stats.keys() == results[0].stats.keys()
        for stat, values in result.stats.items():
            np.testing.assert_allclose(np.asarray(values), results[0].stats[stat], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), EVERY_CASE)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loss_has_the_same_gradient_in_jax_and_torch(name: str, options: Any, shape: Any) -> None:
    plain = columns(shape)
    learnt = ("logp", "value", "entropy")

    def total(arrays: dict[str, Any]) -> Any:
        rest = {key: jnp.asarray(x) for key, x in plain.items() if key not in learnt}
        return evaluate(name, options, jnp.asarray, {**rest, **arrays}).loss.sum()

    in_jax = jax.grad(total)({key: jnp.asarray(plain[key]) for key in learnt})
    tensors = {key: torch.from_numpy(x.copy()).requires_grad_(key in learnt) for key, x in plain.items()}
    evaluate(name, options, torch.from_numpy, tensors).loss.sum().backward()
    for key in learnt:
        gradient = tensors[key].grad
        in_torch = np.zeros(shape) if gradient is None else gradient.numpy()
        np.testing.assert_allclose(in_jax[key], in_torch, rtol=1e-5, atol=1e-6)


def test_ppo_clip_stops_the_gradient_of_a_step_that_went_too_far() -> None:
    gradient = jax.grad(lambda logp: ppo_clip(logp, jnp.zeros(4), jnp.array([1.0, 1.0, -1.0, -1.0])).loss.sum())
    far = jnp.log(jnp.array([1.5, 1.1, 0.5, 0.9]))
    np.testing.assert_allclose(gradient(far), [0.0, -1.1, 0.0, 0.9], rtol=1e-6)


def test_clip_higher_lets_good_actions_grow_further_than_bad_ones_shrink() -> None:
    ratio = np.log(np.array([1.25, 0.75], np.float32))
    result = ppo_clip(ratio, np.zeros(2, np.float32), np.array([1.0, -1.0], np.float32), clip_low=0.2, clip_high=0.28)
    np.testing.assert_allclose(result.loss, [-1.25, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(result.stats["clip_fraction"], [0.0, 1.0])


def test_dual_clip_bounds_the_loss_of_bad_actions_only() -> None:
    log_ratio, zeros = np.full(2, math.log(10.0), np.float32), np.zeros(2, np.float32)
    advantage = np.array([-2.0, 2.0], np.float32)
    np.testing.assert_allclose(ppo_clip(log_ratio, zeros, advantage).loss, [20.0, -2.4], rtol=1e-5)
    np.testing.assert_allclose(ppo_clip(log_ratio, zeros, advantage, dual_clip=3.0).loss, [6.0, -2.4], rtol=1e-5)


def test_an_absurd_log_ratio_stays_finite() -> None:
    logp, old = np.array([0.0, -1e6], np.float32), np.array([-1e6, 0.0], np.float32)
    result = ppo_clip(logp, old, np.array([-1.0, 1.0], np.float32))
    assert np.isfinite(result.loss).all()
    assert np.isfinite(result.stats["approx_kl"]).all()
    np.testing.assert_allclose(result.loss[0], math.exp(20.0), rtol=1e-5)


def slopes(loss: Callable[..., Any], ratio: list[float], advantage: float, **options: Any) -> np.ndarray:
    """The gradient with respect to logp at these ratios."""
    logp, zeros = jnp.log(jnp.array(ratio)), jnp.zeros(len(ratio))
    found = jax.grad(lambda logp: loss(logp, zeros, jnp.full(len(ratio), advantage), **options).loss.sum())(logp)
    return np.asarray(found)


def test_without_bounds_ppo_is_plain_importance_sampling() -> None:
    ratios = [0.1, 1.0, 7.0]
    for advantage in (1.0, -1.0):
        found = slopes(ppo_clip, ratios, advantage, clip_low=None, clip_high=None)
        np.testing.assert_allclose(found, -advantage * np.array(ratios), rtol=1e-5)


def test_cispo_holds_far_steps_back_where_ppo_drops_them() -> None:
    np.testing.assert_allclose(slopes(cispo, [0.1, 1.0, 3.0], 1.0), [-0.1, -1.0, -1.28], rtol=1e-5)
    np.testing.assert_allclose(slopes(cispo, [0.1, 3.0], -1.0, clip_low=0.2), [0.8, 1.28], rtol=1e-5)


def test_the_gradient_of_sapo_is_one_at_ratio_one_and_falls_on_both_sides() -> None:
    """Trinity's, which stops the gradient of its gate, is 2 there and grows."""
    for advantage in (1.0, -1.0):
        found = -advantage * slopes(sapo, [0.05, 1.0, 3.0, 20.0], advantage)
        assert found[1] == pytest.approx(1.0, rel=1e-5)
        assert found[3] < 1e-5
        assert found[0] < found[1]
    at_three = 4.0 * math.exp(-2.0) / (1.0 + math.exp(-2.0)) ** 2 * 3.0
    np.testing.assert_allclose(slopes(sapo, [3.0], 1.0), [-at_three], rtol=1e-5)


def test_topr_tapers_bad_answers_only() -> None:
    log_ratio = np.log(np.array([0.25, 4.0, 0.25, 4.0], np.float32))
    advantage = np.array([1.0, 1.0, -1.0, -1.0], np.float32)
    logp = np.full(4, -1.0, np.float32)
    result = ratio_loss("topr")(logp, logp - log_ratio, advantage)
    np.testing.assert_allclose(result.stats["taper"], [1.0, 1.0, 0.25, 1.0], rtol=1e-6)
    np.testing.assert_allclose(result.loss, [1.0, 1.0, -0.25, -1.0], rtol=1e-6)


def test_topr_takes_the_ratio_of_the_whole_answer() -> None:
    logp, old = np.array([[-1.0, -2.0, -9.0]]), np.array([[-0.5, -1.0, 0.0]])
    inputs = LossInputs(mask=np.array([[1.0, 1.0, 0.0]]), logp=logp, old_logp=old, advantage=np.full((1, 3), -1.0))
    np.testing.assert_allclose(LOSSES["topr"](inputs).stats["taper"][0, :2], math.exp(-1.5))
    token = LOSSES["topr"](inputs, level="token").stats["taper"]
    np.testing.assert_allclose(token[0, :2], [math.exp(-0.5), math.exp(-1.0)])


def test_sppo_looks_at_ratios_near_one_alone() -> None:
    np.testing.assert_allclose(slopes(sppo, [0.7, 0.8, 1.29, 1.31], 2.0), [0.0, -2.0, -2.0, 0.0], rtol=1e-6)


def test_weighted_imitation_pulls_as_chord_says() -> None:
    probability = np.array([0.01, 0.5, 0.99], np.float32)
    slope = {
        how: np.asarray(jax.grad(lambda x, how=how: sft(x, weighting=how).loss.sum())(jnp.log(probability)))
        for how in ("none", "is", "phi")
    }
    np.testing.assert_allclose(slope["none"], -1.0)
    np.testing.assert_allclose(slope["is"], -probability, rtol=1e-5)
    np.testing.assert_allclose(slope["phi"], -probability * (1 - probability), rtol=1e-4)
    cut = jax.grad(lambda x: sft(x, cutoff=0.9).loss.sum())(jnp.log(jnp.asarray(probability)))
    np.testing.assert_allclose(cut, [-1.0, -1.0, 0.0])


def test_dpo_is_the_mean_over_pairs_whatever_stands_between_them() -> None:
    """Two pairs, apart and in either order, with answers of different lengths; NaN under the mask."""
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]], np.float32)
    logp = np.where(mask > 0, np.array([[-1.0], [-2.0], [-0.5], [-3.0]]) * np.ones((4, 3)), np.nan)
    ref = np.where(mask > 0, -1.0, np.nan)
    chosen, partner = np.array([True, False, True, False]), np.array([3, 2, 1, 0])
    found = dpo(logp, ref, mask, partner, chosen, beta=0.5)
    # gains over the reference: 0, -1, 1.5, -4; pairs (0, 3) and (2, 1)
    margins = 0.5 * np.array([0.0 + 4.0, 1.5 + 1.0])
    wanted = np.log1p(np.exp(-margins))
    np.testing.assert_allclose(found.loss[:, 0], wanted[[0, 1, 1, 0]])
    np.testing.assert_allclose(sequence_mean_token_mean(found.loss, mask), wanted.mean())
    np.testing.assert_array_equal(found.stats["preference_accuracy"], 1.0)
    smoothed = dpo(logp, ref, mask, partner, chosen, beta=0.5, label_smoothing=0.2).loss[:, 0]
    np.testing.assert_allclose(smoothed, (0.8 * wanted + 0.2 * np.log1p(np.exp(margins)))[[0, 1, 1, 0]])


def test_dpo_stays_finite_however_sure_it_is() -> None:
    mask, partner = np.ones((2, 1), np.float32), np.array([1, 0])
    logp = np.array([[-1e6], [0.0]], np.float32)
    loss = dpo(logp, np.zeros_like(logp), mask, partner, np.array([True, False])).loss
    np.testing.assert_allclose(loss, 1e5, rtol=1e-5)


def test_value_clip_takes_the_larger_error() -> None:
    value, old, target = (np.array([x], np.float32) for x in (1.0, 0.0, 0.9))
    np.testing.assert_allclose(value_loss(value, target, old).loss, [0.5 * 0.1**2], rtol=1e-4)
    np.testing.assert_allclose(value_loss(value, target, old, clip=0.2).loss, [0.5 * 0.7**2], rtol=1e-5)


def test_k3_follows_its_closed_form_and_can_be_capped_as_in_verl() -> None:
    logp, ref = np.zeros(1, np.float32), np.array([6.0], np.float32)
    np.testing.assert_allclose(kl(logp, ref).loss, [math.exp(6) - 1 - 6], rtol=1e-5)
    np.testing.assert_allclose(kl(logp, ref, cap=10.0).loss, [10.0])


def test_an_unknown_kl_estimator_is_refused() -> None:
    with pytest.raises(ValueError, match="k1, k2 or k3"):
        kl(np.zeros(1), np.zeros(1), estimator="k9")  # type: ignore[arg-type]


def test_illegal_actions_have_no_probability_no_entropy_and_no_gradient() -> None:
    logits = jnp.array([[1.0, 2.0, 50.0], [0.0, 0.0, 0.0]])
    legal = jnp.array([[True, True, False], [True, False, False]])
    log_probs = masked_log_softmax(logits, legal)
    probabilities = np.exp(log_probs)
    np.testing.assert_array_equal(probabilities[~np.asarray(legal)], 0.0)
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(entropy(log_probs)[1], 0.0)
    gradient = jax.jit(jax.grad(lambda x: entropy(masked_log_softmax(x, legal)).sum()))(logits)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[~np.asarray(legal)], 0.0)


def test_a_row_without_legal_actions_stays_finite() -> None:
    log_probs = masked_log_softmax(np.array([[1.0, 5.0]], np.float32), np.zeros((1, 2), bool))
    assert np.isfinite(entropy(log_probs)).all()


def test_take_last_and_stop_gradient_work_on_every_framework() -> None:
    x, index = np.arange(12, dtype=np.float32).reshape(2, 2, 3), np.array([[0, 2], [1, 1]])
    for convert in (np.asarray, jnp.asarray, torch.from_numpy):
        taken = take_last(stop_gradient(convert(x)), convert(index))
        np.testing.assert_array_equal(np.asarray(taken), [[0, 5], [7, 10]])
    np.testing.assert_array_equal(jax.grad(lambda x: stop_gradient(x).sum())(jnp.ones(2)), 0.0)
    assert not stop_gradient(torch.ones(1, requires_grad=True)).requires_grad
