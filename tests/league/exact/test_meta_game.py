"""Meta-strategies: known values, degenerate tables, and large tables that are solved by parts."""

import numpy as np
import pytest

from ludus.league.exact.meta_game import Floats, MetaStrategy, solve_meta_game, solve_nash
from ludus.league.solvers import META_SOLVERS


def everybody(table: Floats) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(len(table), np.bool_), np.ones(table.shape[1], np.bool_)


def value(table: Floats, meta: MetaStrategy) -> float:
    return float(meta.rows @ table @ meta.columns)


def gap(table: Floats, meta: MetaStrategy) -> float:
    return float((table @ meta.columns).max() - (meta.rows @ table).min())


KNOWN = {
    "rock-paper-scissors": ([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], 0.0, [1 / 3, 1 / 3, 1 / 3]),
    "biased rock-paper-scissors": ([[0, -1, 2], [1, 0, -1], [-2, 1, 0]], 0.0, [1 / 4, 1 / 2, 1 / 4]),
    "matching pennies with a bonus": ([[3, -1], [-1, 1]], 1 / 3, [1 / 3, 2 / 3]),
    "von Neumann's duel": ([[2, 3, 11], [7, 5, 2]], 49 / 11, [3 / 11, 8 / 11]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_games_have_their_known_equilibrium(name: str) -> None:
    rows, expected, strategy = KNOWN[name]
    table = np.array(rows, np.float64)
    meta = solve_meta_game("nash", table, everybody(table))
    assert value(table, meta) == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(meta.rows, strategy, atol=1e-9)


@pytest.mark.parametrize("solver", META_SOLVERS)
@pytest.mark.parametrize(
    "table",
    [
        np.zeros((1, 1)),
        np.full((1, 1), -7.5),
        np.zeros((5, 3)),
        np.ones((3, 7)),
        np.full((4, 4), 1e9),
        np.eye(2) * 1e-9,
    ],
    ids=["one draw", "one policy", "all draws", "all wins", "large", "small"],
)
def test_degenerate_tables_give_distributions(solver: str, table: Floats) -> None:
    meta = solve_meta_game(solver, table, everybody(table))
    for weights, count in zip(meta, table.shape, strict=True):
        assert weights.shape == (count,)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    if solver == "nash":
        assert gap(table, meta) <= 1e-9 * max(1e-9, np.abs(table).max())


def test_a_large_table_is_solved_exactly_whoever_is_tried_first() -> None:
    table = np.random.default_rng(1).normal(size=(150, 120))
    whole = solve_nash(table)
    first = np.zeros(150, np.bool_), np.zeros(120, np.bool_)
    first[0][7] = first[1][11] = True
    meta = solve_meta_game("nash", table, first)
    assert gap(table, meta) < 1e-9
    assert value(table, meta) == pytest.approx(value(table, whole), abs=1e-9)
