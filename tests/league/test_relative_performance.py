"""Relative population performance: the value of the game between two populations."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.league.solvers import relative_population_performance

ROCK_PAPER_SCISSORS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], float)


def test_a_population_is_as_strong_as_itself() -> None:
    assert relative_population_performance(ROCK_PAPER_SCISSORS) == pytest.approx(0.0, abs=1e-12)


def test_a_population_without_paper_is_beaten_by_one_with_all_three() -> None:
    """Rock and scissors against all: the answer mixes rock and paper, 1 to 2, and wins a third of the stakes."""
    assert relative_population_performance(ROCK_PAPER_SCISSORS[:, [0, 2]]) == pytest.approx(1 / 3)
    assert relative_population_performance(ROCK_PAPER_SCISSORS[[0, 2]]) == pytest.approx(-1 / 3)


def test_roles_change_the_sign_only() -> None:
    cross = np.random.default_rng(0).normal(size=(4, 7))
    assert relative_population_performance(-cross.T) == pytest.approx(-relative_population_performance(cross))


def test_weaker_policies_change_nothing() -> None:
    cross = np.random.default_rng(1).normal(size=(3, 3))
    with_weak_one = np.vstack([cross, cross.min(axis=0) - 1])
    assert relative_population_performance(with_weak_one) == pytest.approx(relative_population_performance(cross))


def test_missing_cells_are_finite() -> None:
    assert np.isfinite(relative_population_performance([[1.0, np.nan], [np.nan, np.nan]]))
    assert relative_population_performance([[np.nan]]) == 0.0
