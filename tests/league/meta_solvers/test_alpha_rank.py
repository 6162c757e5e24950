"""α-rank: what evolution does to known games, for weak, strong and infinitely strong selection."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array
from ludus.league.solvers import alpha_rank, marginals, solve, solve_joint, symmetric_table, zero_sum_table
from ludus.league.solvers.alpha_rank import NEGLIGIBLE, stationary_distribution

ROCK_PAPER_SCISSORS = zero_sum_table([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
PRISONERS = symmetric_table([[-1, -3], [0, -2]])
COORDINATION = symmetric_table([[2, 0], [0, 1]])


def exact_stationary(rates: list[list[Fraction]]) -> list[float]:
    """By elimination in rational numbers, which loses nothing."""
    size = len(rates)
    balance = [[rates[i][j] if i != j else -sum(rates[i]) + rates[i][i] for i in range(size)] for j in range(size)]
    balance[-1] = [Fraction(1)] * size
    right = [Fraction(0)] * (size - 1) + [Fraction(1)]
    for column in range(size):
        pivot = next(row for row in range(column, size) if balance[row][column])
        balance[column], balance[pivot] = balance[pivot], balance[column]
        right[column], right[pivot] = right[pivot], right[column]
        for row in range(size):
            if row != column and balance[row][column]:
                factor = balance[row][column] / balance[column][column]
                balance[row] = [a - factor * b for a, b in zip(balance[row], balance[column], strict=True)]
                right[row] -= factor * right[column]
    return [float(right[row] / balance[row][row]) for row in range(size)]


@pytest.mark.parametrize("smallest", [1, 20, 200, 3_000])
def test_stationary_distribution_is_exact_for_rates_of_any_size(smallest: int) -> None:
    random = np.random.default_rng(smallest)
    exponents = random.integers(-smallest, 1, (5, 5))
    exact = exact_stationary(
        [
            [Fraction(2) ** int(e) if i != j else Fraction(0) for j, e in enumerate(row)]
            for i, row in enumerate(exponents)
        ]
    )
    assert stationary_distribution(exponents * np.log(2.0)) == pytest.approx(exact, rel=1e-9, abs=1e-280)


@pytest.mark.parametrize("large", [True, False])
def test_large_chains_without_rare_moves_have_the_same_answer(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stationary_distribution.__globals__, "LARGE", 2 if large else 10**9)
    exponents = np.random.default_rng(0).integers(-9, 1, (6, 6))
    exact = exact_stationary(
        [
            [Fraction(2) ** int(e) if i != j else Fraction(0) for j, e in enumerate(row)]
            for i, row in enumerate(exponents)
        ]
    )
    assert stationary_distribution(exponents * np.log(2.0)) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_leaving_losses_out_changes_nothing_where_they_are_negligible(seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=(2, 4, 5)).round(1)
    with_losses = solve_joint("alpha_rank", table, epsilon=1.01 * NEGLIGIBLE)
    assert solve_joint("alpha_rank", table) == pytest.approx(with_losses, abs=1e-9)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0, 1e6, 1e300, np.inf])
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_cycle_visits_all_of_it_equally(alpha: float, symmetric: bool) -> None:
    for strategy in solve("alpha_rank", ROCK_PAPER_SCISSORS, alpha=alpha, symmetric=symmetric):
        assert strategy == pytest.approx([1 / 3] * 3)


def test_dominance_ends_at_the_dominant_profile() -> None:
    joint = solve_joint("alpha_rank", PRISONERS)
    assert joint == pytest.approx(np.array([[0, 0], [0, 1]]), abs=1e-12)


def test_selection_grows_with_alpha() -> None:
    shares = [solve("alpha_rank", PRISONERS, alpha=alpha, population=10)[0][1] for alpha in (1e-6, 0.1, 1.0, 10.0)]
    assert shares[0] == pytest.approx(0.5, abs=1e-3)
    assert sorted(shares) == shares
    assert shares[-1] == pytest.approx(1.0, abs=1e-9)


def test_limit_of_strong_selection_is_approached_where_one_set_holds_everything() -> None:
    table = zero_sum_table(np.random.default_rng(1).normal(size=(3, 4)))
    limit = solve_joint("alpha_rank", table)
    assert solve_joint("alpha_rank", table, alpha=1e4) == pytest.approx(limit, abs=1e-9)


def test_both_conventions_of_coordination_hold_equally_in_the_limit() -> None:
    """Only losses lead from one to the other, and in the limit all losses are equally rare."""
    assert solve_joint("alpha_rank", COORDINATION) == pytest.approx(np.diag([0.5, 0.5]), abs=1e-12)


def test_finite_selection_prefers_the_better_convention_also_where_rates_vanish() -> None:
    joint = solve_joint("alpha_rank", COORDINATION, alpha=1_000.0)
    assert joint[0, 0] == pytest.approx(1.0)
    assert np.isfinite(joint).all()


def test_three_players_who_gain_by_agreeing() -> None:
    """Two must move before anything is gained: escapes of the second order decide, and are equal."""
    table = np.zeros((3, 2, 2, 2))
    table[:, 0, 0, 0] = table[:, 1, 1, 1] = 1.0
    joint = solve_joint("alpha_rank", table)
    assert joint[0, 0, 0] == pytest.approx(0.5)
    assert joint[1, 1, 1] == pytest.approx(0.5)


def test_ties_are_crossed_slowly_in_large_populations() -> None:
    """From the first policy a tie leads to the second and a gain back from the third."""
    matrix = np.array([[0, 0, 1], [0, 0, -1], [-1, 1, 0]], float)
    shares = {
        size: solve("alpha_rank", symmetric_table(matrix), population=size, symmetric=True)[0] for size in (2, 100)
    }

    def exact(size: int) -> list[float]:
        tie, one, none = Fraction(1, size), Fraction(1), Fraction(0)
        return exact_stationary([[none, tie, none], [tie, none, one], [one, none, none]])

    assert shares[2] == pytest.approx(exact(2), abs=1e-9)
    assert shares[100] == pytest.approx(exact(100), abs=1e-9)
    assert shares[2] != pytest.approx(shares[100], abs=1e-2)


def test_joint_of_a_coordination_is_not_the_product_of_its_marginals() -> None:
    joint = alpha_rank(COORDINATION)
    assert isinstance(joint, np.ndarray)
    rows, columns = marginals(joint)
    assert np.abs(np.outer(rows, columns) - joint).max() == pytest.approx(0.25)


def test_what_does_not_fit_is_refused_with_the_way_out() -> None:
    with pytest.raises(
        LudusError, match=r"alpha_rank of 6400 profiles would need a matrix of 6400 times 6400.*symmetric=True"
    ):
        alpha_rank(np.zeros((2, 80, 80)))
    many: Array = symmetric_table(np.zeros((80, 80)))
    assert solve("alpha_rank", many, symmetric=True)[0] == pytest.approx(np.full(80, 1 / 80))
    with pytest.raises(LudusError, match="needs alpha > 0, population >= 2"):
        alpha_rank(PRISONERS, alpha=0.0)
