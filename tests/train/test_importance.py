"""Importance weights: what is cut, what is dropped, and that masked elements have no say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.train.importance import importance_weight, mismatch, mismatch_totals, row_mean, row_sum

ENGINE = np.zeros((2, 3), np.float32)
LEARNER = np.log(np.array([[0.5, 1.0, 4.0], [1.5, 1.5, 100.0]], np.float32))
MASK = np.array([[1, 1, 1], [1, 1, 0]], np.float32)


def weights(**how: Any) -> np.ndarray:
    settings = {"correction": "truncate", "level": "token", "low": None, "high": 2.0, **how}
    return importance_weight(LEARNER, ENGINE, MASK, **settings)


def test_truncated_weights_are_cut_and_masked_ones_dropped() -> None:
    np.testing.assert_allclose(weights()[0], [0.5, 1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(weights(low=0.8)[0], [0.8, 1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(weights(correction="mask", low=0.8)[0], [0.0, 1.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(weights(correction="mask", high=None)[0], [0.5, 1.0, 4.0], rtol=1e-6)
    assert (weights(correction="none") == 1).all()


def test_at_the_level_of_sequences_the_ratio_is_that_of_what_the_policy_said() -> None:
    np.testing.assert_allclose(weights(level="sequence", high=None), [[2.0] * 3, [2.25] * 3], rtol=1e-6)


def test_one_absurd_token_overflows_nothing() -> None:
    absurd = importance_weight(
        np.full((1, 2), 500.0), np.zeros((1, 2)), np.ones((1, 2)), correction="mask", level="sequence", low=0.5, high=2
    )
    assert (absurd == 0).all()


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_rows_are_summed_over_their_mask(shape: tuple[int, ...]) -> None:
    x, mask = np.array([1.0, np.nan, 3.0, 5.0]).reshape(shape), np.array([1.0, 0.0, 1.0, 1.0]).reshape(shape)
    sums = [1, 0, 3, 5] if len(shape) == 1 else [[1, 1], [8, 8]]
    means = [1, 0, 3, 5] if len(shape) == 1 else [[1, 1], [4, 4]]
    np.testing.assert_allclose(row_sum(x, mask), sums)
    np.testing.assert_allclose(row_mean(x, mask), means)
    assert (row_mean(x, np.zeros_like(mask)) == 0).all()


def test_totals_of_parts_add_up_to_the_figures_of_the_whole() -> None:
    whole = mismatch_totals(LEARNER, ENGINE, MASK)
    parts = [mismatch_totals(LEARNER[i : i + 1], ENGINE[i : i + 1], MASK[i : i + 1]) for i in range(2)]
    assert mismatch({name: sum(part[name] for part in parts) for name in whole}) == pytest.approx(mismatch(whole))


def test_the_figures_are_what_they_are_called() -> None:
    ratio = np.array([0.5, 1.0, 4.0, 1.5, 1.5])
    found = mismatch(mismatch_totals(LEARNER, ENGINE, MASK))
    assert found["mismatch_kl"] == pytest.approx(np.mean(ratio - 1 - np.log(ratio)), rel=1e-5)
    assert found["effective_sample_size"] == pytest.approx(ratio.sum() ** 2 / (ratio**2).sum() / 5, rel=1e-5)
    assert mismatch({}) == {}
