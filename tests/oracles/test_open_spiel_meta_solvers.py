"""Meta-solvers and Elo beside OpenSpiel's own code.

Its LP, JPSRO and Nash averaging import cvxpy and ecos, which OpenSpiel does not declare: `make oracles` installs them,
and without them those comparisons are skipped.
"""

from __future__ import annotations

import numpy as np
import pytest

from ludus.league import fit_elo
from ludus.league.payoffs.normal_form import Array
from ludus.league.solvers import (
    ce_gap,
    expected_payoffs,
    marginals,
    nash,
    nash_conv,
    projected_replicator,
    regret_matching,
    solve,
    solve_joint,
    symmetric_table,
    zero_sum_table,
)

pytest.importorskip("pyspiel")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:cvxpy.*")  # of cvxpy, inside
SHAPES = [(2, 2), (3, 4), (2, 3, 2), (3, 3, 3)]


def random_table(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(len(shape), *shape))


def antisymmetric(size: int, seed: int, *, integers: bool = False) -> Array:
    random = np.random.default_rng(seed)
    values = random.integers(-2, 3, (size, size)).astype(float) if integers else random.normal(size=(size, size))
    return np.asarray(values - values.T)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_alpha_rank_equals_open_spiels(shape: tuple[int, ...], alpha: float) -> None:
    from open_spiel.python.egt import alpharank

    table = random_table(shape)
    if len(shape) == 2:
        _, _, theirs, _, _ = alpharank.compute(list(table), m=10, alpha=alpha)
    else:  # its tables of more players must be symmetric; its chain is for any, so ask for that alone
        chain, _ = alpharank._get_multipop_transition_matrix(list(table), False, 10, alpha)
        theirs = alpharank._get_stationary_distr(chain)
    ours = solve_joint("alpha_rank", table, alpha=alpha, population=10)
    assert ours.ravel() == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 2.0])
@pytest.mark.parametrize("size", [2, 3, 6])
def test_alpha_rank_of_one_population_equals_open_spiels(size: int, alpha: float) -> None:
    from open_spiel.python.egt import alpharank

    matrix = np.random.default_rng(size).normal(size=(size, size))
    _, _, theirs, _, _ = alpharank.compute([matrix], m=20, alpha=alpha, use_local_selection_model=True)
    ours = solve("alpha_rank", symmetric_table(matrix), alpha=alpha, population=20, symmetric=True)
    assert ours[0] == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
@pytest.mark.parametrize("shape", SHAPES)
def test_alpha_rank_of_infinite_alpha_equals_open_spiels(shape: tuple[int, ...], epsilon: float) -> None:
    from open_spiel.python.egt import alpharank

    table = random_table(shape, seed=3).round(1)
    chain, _ = alpharank._get_multipop_transition_matrix(
        list(table), False, 50, None, use_inf_alpha=True, inf_alpha_eps=epsilon
    )
    theirs = alpharank._get_stationary_distr(chain)
    ours = solve_joint("alpha_rank", table, population=2, epsilon=epsilon)
    assert ours.ravel() == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_projected_replicator_equals_open_spiels(shape: tuple[int, ...]) -> None:
    from open_spiel.python.algorithms.projected_replicator_dynamics import projected_replicator_dynamics

    table = random_table(shape, seed=1)
    theirs = projected_replicator_dynamics(list(table), prd_iterations=500, prd_dt=1e-2, prd_gamma=1e-3)
    ours = projected_replicator(table, steps=500, dt=1e-2, floor=1e-3)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, abs=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_regret_matching_equals_open_spiels(shape: tuple[int, ...]) -> None:
    """Theirs starts with a regret of 1e-6 for everything and keeps a share of gamma uniform."""
    from open_spiel.python.algorithms import regret_matching as theirs_module

    table = random_table(shape, seed=2)
    theirs = theirs_module.regret_matching(list(table), iterations=200, gamma=0.0)
    for mine, other in zip(marginals(regret_matching(table, rounds=200)), theirs, strict=True):
        assert mine == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("shape", [(3, 3), (4, 7), (10, 10)])
def test_nash_equals_open_spiels_linear_program(shape: tuple[int, int]) -> None:
    pytest.importorskip("cvxpy")
    import pyspiel
    from open_spiel.python.algorithms import lp_solver

    table = zero_sum_table(np.random.default_rng(shape[1]).normal(size=shape))
    row, column, value, _ = lp_solver.solve_zero_sum_matrix_game(pyspiel.create_matrix_game(*table.tolist()))
    ours = nash(table)
    assert ours[0] == pytest.approx(np.ravel(row), abs=1e-6)
    assert ours[1] == pytest.approx(np.ravel(column), abs=1e-6)
    assert float(ours[0] @ table[0] @ ours[1]) == pytest.approx(float(np.ravel(value)[0]), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_nash_of_highest_entropy_equals_open_spiels_nash_averaging(seed: int) -> None:
    pytest.importorskip("cvxpy")
    from open_spiel.python.algorithms.nash_averaging import _max_entropy_symmetric_nash

    matrix = antisymmetric(7, seed, integers=True)[np.ix_([0, 1, 2, 3, 4, 5, 6, 0], [0, 1, 2, 3, 4, 5, 6, 0])]
    theirs = np.ravel(_max_entropy_symmetric_nash(matrix, eps=0.0))
    ours = solve("nash", zero_sum_table(matrix), symmetric=True)[0]
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert nash_conv(zero_sum_table(matrix), [ours, ours]) <= 1e-9


@pytest.mark.parametrize("name", ["ce", "cce"])
@pytest.mark.parametrize("shape", SHAPES)
def test_equilibria_of_highest_gini_impurity_equal_jpsros(shape: tuple[int, ...], name: str) -> None:
    pytest.importorskip("cvxpy")
    from open_spiel.python.algorithms import jpsro

    table = random_table(shape, seed=5)
    repeats = [np.ones(count, int) for count in shape]
    theirs, _ = (jpsro._mgce if name == "ce" else jpsro._mgcce)(table, repeats)
    assert solve_joint(name, table, select="max_gini") == pytest.approx(theirs.reshape(shape), abs=1e-5)


@pytest.mark.parametrize("name", ["ce", "cce"])
@pytest.mark.parametrize("shape", SHAPES)
def test_equilibria_of_highest_welfare_are_as_good_as_jpsros(shape: tuple[int, ...], name: str) -> None:
    pytest.importorskip("cvxpy")
    from open_spiel.python.algorithms import jpsro

    table = random_table(shape, seed=6)
    repeats = [np.ones(count, int) for count in shape]
    theirs, _ = (jpsro._mwce if name == "ce" else jpsro._mwcce)(table, repeats)
    ours = solve_joint(name, table, select="max_welfare")
    assert expected_payoffs(table, ours).sum() == pytest.approx(
        expected_payoffs(table, theirs.reshape(shape)).sum(), abs=1e-5
    )
    if name == "ce":
        assert ce_gap(table, ours) <= 1e-9


@pytest.mark.parametrize("name", ["ce", "cce"])
@pytest.mark.parametrize("shape", SHAPES)
def test_equilibria_of_highest_entropy_equal_cvxpys(shape: tuple[int, ...], name: str) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    from ludus.league.solvers.correlated import commitment_gains, deviation_gains

    table = random_table(shape, seed=7)
    gains = (deviation_gains if name == "ce" else commitment_gains)(table)
    point = cvxpy.Variable(table[0].size)
    constraints = [gains @ point <= 0, point >= 0, cvxpy.sum(point) == 1]
    cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(cvxpy.entr(point))), constraints).solve()
    assert solve_joint(name, table).ravel() == pytest.approx(point.value, abs=1e-4)


@pytest.mark.parametrize("name", ["uniform", "nash", "prd"])
def test_meta_strategies_of_psro_are_open_spiels(name: str) -> None:
    pytest.importorskip("cvxpy")
    from open_spiel.python.algorithms.psro_v2 import meta_strategies

    table = zero_sum_table(antisymmetric(4, 9))

    class Solver:
        def get_policies(self) -> list[list[int]]:
            return [[0] * 4, [0] * 4]

        def get_meta_game(self) -> list[Array]:
            return list(table)

        def get_kwargs(self) -> dict[str, float]:
            return {"prd_iterations": 1_000, "prd_dt": 1e-2}

    theirs = meta_strategies.META_STRATEGY_METHODS[name](Solver())
    options = {"steps": 1_000, "dt": 1e-2} if name == "prd" else {}
    for mine, other in zip(solve(name, table, **options), theirs, strict=True):
        assert mine == pytest.approx(other, abs=1e-6)


def test_elo_equals_open_spiels() -> None:
    from open_spiel.python.algorithms import elo

    random = np.random.default_rng(0)
    wins, draws = random.integers(1, 9, (2, 5, 5))
    draws = np.triu(draws, 1) + np.triu(draws, 1).T
    np.fill_diagonal(wins, 0)
    theirs = elo.compute_ratings_from_matrices(wins, draws, smoothing_factor=0.0, convergence_delta=1e-14)
    ours = fit_elo(wins, draws, prior_draws=0.0).ratings
    # OpenSpiel stops its iteration by a tolerance of its own; how close it comes depends on the processor.
    assert ours - ours.mean() == pytest.approx(theirs - theirs.mean(), abs=1e-5)
