"""Nash: known values, one answer among many equilibria, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.errors import LudusError
from ludus.league.solvers import game_value, nash, nash_conv, solve, zero_sum_table

ROCK_PAPER_SCISSORS = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
BIASED = [[0, -25, 50], [25, 0, -5], [-50, 5, 0]]

KNOWN = {
    "rock-paper-scissors": (ROCK_PAPER_SCISSORS, [1 / 3, 1 / 3, 1 / 3], 0.0),
    "biased rock-paper-scissors": (BIASED, [1 / 16, 10 / 16, 5 / 16], 0.0),
    "matching pennies": ([[1, -1], [-1, 1]], [0.5, 0.5], 0.0),
    "no saddle point": ([[3, -1], [-2, 4]], [0.6, 0.4], 1.0),
    "saddle point": ([[4, 2, 5], [1, 0, 7]], [1.0, 0.0], 2.0),
    "one policy": ([[3.0]], [1.0], 3.0),
    "one row": ([[3.0, -2.0]], [1.0], -2.0),
}


@pytest.mark.parametrize("select", ["max_entropy", "vertex"])
@pytest.mark.parametrize("name", KNOWN)
def test_known_games_have_their_known_strategy_and_value(name: str, select: str) -> None:
    matrix, strategy, value = KNOWN[name]
    table = zero_sum_table(matrix)
    row, column = solve("nash", table, select=select)
    assert row == pytest.approx(strategy, abs=1e-9)
    assert row @ table[0] @ column == pytest.approx(value, abs=1e-9)
    assert game_value(table) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("select", ["max_entropy", "vertex"])
@pytest.mark.parametrize("size", [2, 7, 40])
@pytest.mark.parametrize("kind", ["uniform", "antisymmetric", "integers", "copies", "few dimensions"])
def test_nobody_gains_by_deviating(kind: str, size: int, select: str) -> None:
    random = np.random.default_rng(size)
    matrix = random.uniform(-1, 1, (size, size + 1))
    if kind == "integers":
        matrix = random.integers(-1, 2, matrix.shape).astype(float)
    if kind == "antisymmetric":
        matrix = matrix[:, :size] - matrix[:, :size].T
    if kind == "copies":
        matrix = matrix[np.arange(size) // 2]
    if kind == "few dimensions":
        skills = random.normal(size=(size, 2)).round(1)
        matrix = skills @ np.array([[0, 1], [-1, 0]]) @ skills.T
    table = zero_sum_table(matrix)
    assert nash_conv(table, solve("nash", table, select=select)) <= 1e-9 * np.ptp(matrix)


def test_copies_share_what_one_of_them_would_get() -> None:
    twice = [0, 0, 1, 2]
    table = zero_sum_table(np.array(ROCK_PAPER_SCISSORS)[np.ix_(twice, twice)])
    for strategy in nash(table):
        assert strategy == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3], abs=1e-9)


def test_order_of_policies_does_not_matter() -> None:
    random = np.random.default_rng(3)
    matrix = random.integers(-1, 2, (9, 6)).astype(float)[[0, 1, 2, 3, 4, 5, 6, 0, 1]]
    rows, columns = random.permutation(9), random.permutation(6)
    straight = nash(zero_sum_table(matrix))
    turned = nash(zero_sum_table(matrix[np.ix_(rows, columns)]))
    assert turned[0] == pytest.approx(straight[0][rows], abs=1e-8)
    assert turned[1] == pytest.approx(straight[1][columns], abs=1e-8)


def test_entropy_is_highest_among_many_equilibria() -> None:
    """The row player may mix its second and third policy freely; the column player never plays its second."""
    row, column = nash(zero_sum_table([[-1, 0], [0, 1], [0, 2], [0, 0]]))
    assert row == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3], abs=1e-9)
    assert column == pytest.approx([1, 0], abs=1e-9)


def test_all_draws_are_played_uniformly() -> None:
    assert [list(strategy) for strategy in nash(np.zeros((2, 3, 2)))] == [[1 / 3] * 3, [0.5, 0.5]]


def test_sums_to_a_constant_is_enough() -> None:
    """Scores in [0, 1] add up to 1."""
    scores = (np.array(ROCK_PAPER_SCISSORS) + 1) / 2
    assert nash(np.stack([scores, 1 - scores]))[0] == pytest.approx([1 / 3] * 3)


def test_far_offset_and_scale_change_nothing() -> None:
    matrix = 1e6 + 1e-3 * np.array(BIASED)
    assert nash(np.stack([matrix, -matrix]))[0] == pytest.approx(KNOWN["biased rock-paper-scissors"][1], abs=1e-6)


def test_what_it_is_not_for_is_refused_with_the_way_out() -> None:
    with pytest.raises(LudusError, match="add up to a constant, and these do not; use ce or cce"):
        nash([[[1, 0], [0, 1]], [[1, 0], [0, 1]]])
    with pytest.raises(LudusError, match="for 2 players, not 3; use ce, cce, alpha_rank or prd"):
        nash(np.zeros((3, 2, 2, 2)))
    with pytest.raises(LudusError, match="select is max_entropy or vertex, not 'best'"):
        nash(np.zeros((2, 2, 2)), select="best")  # type: ignore[arg-type]
