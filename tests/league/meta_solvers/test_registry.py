"""The registry: names, options, shared populations, and answers that are distributions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import ludus.league.solvers as meta_solvers
from ludus.errors import ConfigError, LudusError
from ludus.league.payoffs.normal_form import Array, completed, payoffs_against
from ludus.league.payoffs.normal_form import symmetric_table as of_matrix
from ludus.league.solvers import (
    META_SOLVERS,
    find_meta_solver,
    marginals,
    product,
    register_meta_solver,
    solve,
    solve_joint,
    symmetric_table,
    zero_sum_table,
)

ROCK_PAPER_SCISSORS = zero_sum_table([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def test_public_names_exist_and_are_sorted() -> None:
    assert all(hasattr(meta_solvers, name) for name in meta_solvers.__all__)
    assert meta_solvers.__all__ == sorted(meta_solvers.__all__, key=lambda n: (not n.isupper(), n[0].islower(), n))


@pytest.mark.parametrize("name", META_SOLVERS)
def test_joint_and_strategies_belong_together(name: str) -> None:
    table = ROCK_PAPER_SCISSORS + np.array([[0, 0, 0.5], [0, 0, 0], [0, 0, 0]]) * np.array([1, -1]).reshape(2, 1, 1)
    joint = solve_joint(name, table)
    for strategy, marginal in zip(solve(name, table), marginals(joint), strict=True):
        assert marginal == pytest.approx(strategy, abs=1e-12)
    assert joint.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", META_SOLVERS)
def test_same_table_gives_the_same_bits(name: str) -> None:
    table = zero_sum_table(np.random.default_rng(0).integers(-2, 3, (4, 4)).astype(float))
    first, second = solve_joint(name, table), solve_joint(name, table.copy())
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("name", META_SOLVERS)
def test_a_table_is_left_as_it_was(name: str) -> None:
    table = zero_sum_table([[0, 1, np.nan], [-1, 0, 1], [2, -1, 0]])
    before = table.tobytes()
    solve(name, table)
    solve(name, table, symmetric=True)
    assert table.tobytes() == before


@pytest.mark.parametrize("name", META_SOLVERS)
def test_shared_population_has_one_strategy_and_an_exchangeable_joint(name: str) -> None:
    table = symmetric_table(np.random.default_rng(2).normal(size=(3, 3)).round(1))
    if name in ("nash", "rectified_nash"):
        table = zero_sum_table(table[0] - table[0].T)
    first, second = solve(name, table, symmetric=True)
    joint = solve_joint(name, table, symmetric=True)
    assert list(first) == list(second)
    assert joint == pytest.approx(joint.T, abs=1e-12)


def test_shared_population_of_three_is_averaged_over_all_seatings() -> None:
    """One seating of each profile is known; the others follow."""
    random = np.random.default_rng(4)
    table = np.full((3, 2, 2, 2), np.nan)
    for profile in [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]:
        table[(slice(None), *profile)] = random.normal(size=3)
    whole = completed(table, symmetric=True)
    assert np.isfinite(whole).all()
    assert whole[1, 0, 1, 0] == pytest.approx(table[2, 0, 0, 1])
    assert whole[0, 0, 1, 0] == pytest.approx((table[0, 0, 0, 1] + table[1, 0, 0, 1]) / 2)
    assert whole[2, 1, 1, 0] == pytest.approx(table[0, 0, 1, 1])
    assert whole[:, 0, 0, 0] == pytest.approx([table[:, 0, 0, 0].mean()] * 3)


def test_missing_cells_are_each_players_mean() -> None:
    table = np.array([[[1.0, np.nan], [3.0, 5.0]], [[0.0, 9.0], [np.nan, 2.0]]])
    whole = completed(table)
    assert whole[0].tolist() == [[1.0, 3.0], [3.0, 5.0]]
    assert whole[1].tolist() == [[0.0, 1.0], [1.0, 2.0]]


def test_missing_cells_keep_a_game_zero_sum() -> None:
    table = zero_sum_table([[0, 1, np.nan], [np.nan, 0, 1], [1, -1, 0]])
    whole = completed(table)
    assert (whole[0] == -whole[1]).all()
    assert solve("nash", table)[0].sum() == pytest.approx(1.0)


def test_expected_payoffs_against_strategies() -> None:
    table = np.random.default_rng(0).normal(size=(3, 2, 3, 4))
    strategies = [np.array([0.5, 0.5]), np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])]
    direct = np.einsum("abc,a,c->b", table[1], strategies[0], strategies[2])
    assert payoffs_against(table, strategies, 1) == pytest.approx(direct)
    assert product(strategies)[1, 2, 3] == pytest.approx(0.5 * 0.5 * 0.4)


def test_tables_that_are_none_are_refused_with_a_sentence() -> None:
    with pytest.raises(LudusError, match=r"at least 2 players, not \[2, 2\]; for one matrix use zero_sum_table"):
        solve("nash", np.zeros((2, 2)))
    with pytest.raises(LudusError, match=r"not \[2, 3, 3, 3\]"):
        solve("ce", np.zeros((2, 3, 3, 3)))
    with pytest.raises(LudusError, match="every player needs at least one policy"):
        solve("uniform", np.zeros((2, 0, 3)))
    with pytest.raises(LudusError, match=r"the payoff at \[1, 0, 1\] is infinite"):
        solve("nash", [[[0, 1], [1, 0]], [[0, np.inf], [1, 0]]])
    with pytest.raises(LudusError, match=r"equally many policies; the table has \[2, 3\]"):
        solve("nash", np.zeros((2, 2, 3)), symmetric=True)
    with pytest.raises(LudusError, match=r"a square matrix of payoffs, not one of \(2, 3\)"):
        of_matrix(np.zeros((2, 3)))
    with pytest.raises(LudusError, match="expected a matrix of payoffs"):
        zero_sum_table(np.zeros(3))


def test_unknown_names_and_options_are_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="meta-solver 'nsh': no such meta-solver; did you mean nash"):
        find_meta_solver("nsh")
    with pytest.raises(ConfigError, match=r"there are alpha_rank, cce, ce, .*; one of your own needs --plugin FILE"):
        find_meta_solver("xyz")
    with pytest.raises(ConfigError, match="meta-solver prd has no option 'rounds'; it takes steps, dt, floor"):
        solve("prd", ROCK_PAPER_SCISSORS, rounds=3)


def test_ones_own_solver_is_used_and_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.league.solvers.SOLVERS.added", {})

    def first_only(table: Array) -> list[Array]:
        return [np.eye(count)[0] for count in table.shape[1:]]

    register_meta_solver("first", first_only)
    register_meta_solver("first", first_only)
    assert list(solve("first", ROCK_PAPER_SCISSORS)[0]) == [1, 0, 0]
    register_meta_solver("broken", lambda table: [np.ones(count) for count in table.shape[1:]])
    with pytest.raises(LudusError, match=r"meta-solver broken gave no distribution: a sum of 3\.0"):
        solve("broken", ROCK_PAPER_SCISSORS)
    with pytest.raises(ConfigError, match="meta-solver name 'nash': expected a new name"):
        register_meta_solver("nash", first_only)


def test_the_league_without_solvers_is_light() -> None:
    code = "import sys, ludus.league; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
