"""Aggregation: what counts and what does not, and that parts add up to the whole."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.train.aggregation import AGGREGATIONS, Aggregation, constant_norm, token_mean

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
MASK = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])

EXPECTED = {
    "token_mean": (1 + 2 + 4) / 3,
    "sequence_mean_token_mean": (1.5 + 4) / 2,
    "sequence_mean_token_sum": (3 + 4) / 2,
}


@pytest.mark.parametrize("name", sorted(AGGREGATIONS))
def test_rows_with_an_empty_mask_do_not_count(name: str) -> None:
    assert AGGREGATIONS[name](X, MASK) == pytest.approx(EXPECTED[name])


def test_the_constant_norm_divides_the_mean_of_sums() -> None:
    assert constant_norm(10)(X, MASK) == pytest.approx((3 + 4) / 2 / 10)


@pytest.mark.parametrize("how", [*AGGREGATIONS.values(), constant_norm(5)])
def test_masked_elements_may_hold_anything(how: Aggregation) -> None:
    assert how(np.where(MASK > 0, X, np.nan), MASK) == how(X, MASK)


@pytest.mark.parametrize("how", [*AGGREGATIONS.values(), constant_norm(5)])
def test_nothing_at_all_gives_zero(how: Aggregation) -> None:
    assert how(X, np.zeros_like(X)) == 0.0


@pytest.mark.parametrize("how", [*AGGREGATIONS.values(), constant_norm(5)])
def test_parts_over_the_normaliser_of_the_whole_add_up_to_the_whole(how: Aggregation) -> None:
    random = np.random.default_rng(0)
    x, mask = random.normal(size=(12, 6)), (random.random((12, 6)) < 0.4).astype(float)
    normaliser = how.normaliser(mask)
    parts = [how.total(x[i : i + 3], mask[i : i + 3]) / normaliser for i in range(0, 12, 3)]
    assert sum(parts) == pytest.approx(how(x, mask))


def test_a_token_mean_of_parts_is_not_a_mean_of_means() -> None:
    assert (token_mean(X[:1], MASK[:1]) + token_mean(X[1:2], MASK[1:2])) / 2 != pytest.approx(token_mean(X, MASK))


def test_decisions_without_a_time_axis_are_rows_of_one() -> None:
    x, mask = np.array([1.0, 2.0, 30.0]), np.array([1.0, 1.0, 0.0])
    for how in AGGREGATIONS.values():
        assert how(x, mask) == pytest.approx(1.5)
