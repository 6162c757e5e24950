"""Any table at all: every meta-solver gives finite distributions that sum to 1, and equilibria that are some."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ludus.league.payoffs.normal_form import Array, completed
from ludus.league.solvers import META_SOLVERS, cce_gap, ce_gap, nash_conv, solve, solve_joint, zero_sum_table

QUICK = {
    "fictitious_play": {"rounds": 30},
    "prd": {"steps": 30},
    "regret_matching": {"rounds": 30},
}
FOR_TWO = {"nash", "rectified_nash"}

ordinary = st.floats(-10, 10, width=32)
few = st.sampled_from([-1.0, 0.0, 1.0, 0.5])
extreme = st.sampled_from([0.0, 5e-324, 1e-300, -1e-12, 1.0, 1.0 + 1e-12, 1e12, 1.7e308, -1.7e308])
KINDS = st.sampled_from([ordinary, few, extreme, few | st.just(np.nan), ordinary | st.just(np.nan), st.just(np.nan)])


@st.composite
def tables(draw: st.DrawFn, zero_sum: bool) -> Array:
    """Few or many values, some missing, some policies twice, any number of players from 2 to 4."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=2 if zero_sum else 4)))
    if len(shape) == 4:
        shape = tuple(min(count, 2) for count in shape)
    values = draw(hnp.arrays(np.float64, (len(shape), *shape), elements=draw(KINDS)))
    table = zero_sum_table(values[0]) if zero_sum else values
    if draw(st.booleans()):
        axis = draw(st.integers(1, len(shape)))
        table = np.concatenate([table, np.take(table, [0], axis=axis)], axis=axis)
    return table


@pytest.mark.parametrize("name", META_SOLVERS)
@settings(max_examples=40)
@given(data=st.data())
def test_answers_are_finite_distributions(name: str, data: st.DataObject) -> None:
    table = data.draw(tables(zero_sum=name in FOR_TWO))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strategies = solve(name, table, **QUICK.get(name, {}))
        joint = solve_joint(name, table, **QUICK.get(name, {}))
    assert [strategy.size for strategy in strategies] == list(table.shape[1:])
    for strategy in [*strategies, joint.ravel()]:
        assert np.isfinite(strategy).all()
        assert strategy.min() >= 0.0
        assert strategy.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", META_SOLVERS)
@settings(max_examples=25)
@given(data=st.data())
def test_shared_populations_have_one_finite_distribution(name: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    matrix = data.draw(hnp.arrays(np.float64, (count, count), elements=data.draw(KINDS)))
    table = zero_sum_table(matrix) if name in FOR_TWO else np.stack([matrix, matrix.T])
    first, second = solve(name, table, symmetric=True, **QUICK.get(name, {}))
    assert np.isfinite(first).all()
    assert first.sum() == pytest.approx(1.0, abs=1e-12)
    assert (first == second).all()


def scaled(table: Array) -> Array:
    """As the solvers see it, with payoffs of the order of 1, so that a gap is a share of the range."""
    whole = completed(table)
    largest = np.abs(whole).max()
    return np.asarray(whole / largest) if largest else whole


@pytest.mark.parametrize("select", ["max_entropy", "vertex"])
@settings(max_examples=60)
@given(table=tables(zero_sum=True))
def test_nash_is_an_equilibrium(select: str, table: Array) -> None:
    assert nash_conv(scaled(table), solve("nash", table, select=select)) <= 1e-8


@pytest.mark.parametrize("select", ["max_entropy", "max_gini", "max_welfare"])
@pytest.mark.parametrize("name", ["ce", "cce"])
@settings(max_examples=40)
@given(table=tables(zero_sum=False))
def test_correlated_equilibria_are_some(name: str, select: str, table: Array) -> None:
    joint = solve_joint(name, table, select=select)
    assert (ce_gap if name == "ce" else cce_gap)(scaled(table), joint) <= 1e-8


@settings(max_examples=40)
@given(matrix=hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=few))
def test_a_copy_of_a_policy_leaves_the_others_their_share_of_nash(matrix: Array) -> None:
    """Of a policy and its copies together as much is played as of the policy alone, or at least something of equal worth."""
    once = solve("nash", zero_sum_table(matrix))
    twice = solve("nash", zero_sum_table(np.vstack([matrix, matrix[:1]])))
    assert twice[0][0] == pytest.approx(twice[0][-1], abs=1e-7)
    assert twice[1] == pytest.approx(once[1], abs=1e-6)
