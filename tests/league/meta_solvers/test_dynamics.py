"""Fictitious play, projected replicator dynamics and regret matching: where they end, and that they end."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.errors import LudusError
from ludus.league.solvers import (
    cce_gap,
    fictitious_play,
    marginals,
    nash_conv,
    projected_replicator,
    regret_matching,
    symmetric_table,
    zero_sum_table,
)

BIASED = zero_sum_table([[0, -25, 50], [25, 0, -5], [-50, 5, 0]])
EQUILIBRIUM = [1 / 16, 10 / 16, 5 / 16]


def test_fictitious_play_approaches_the_equilibrium() -> None:
    strategies = fictitious_play(BIASED, rounds=5_000)
    assert strategies[0] == pytest.approx(EQUILIBRIUM, abs=0.02)
    assert nash_conv(BIASED, strategies) < nash_conv(BIASED, fictitious_play(BIASED, rounds=50))


def test_fictitious_play_shares_a_round_among_equally_good_replies() -> None:
    table = zero_sum_table([[1, 1], [1, 1], [0, 0]])
    assert fictitious_play(table, rounds=999)[0] == pytest.approx([0.5, 0.5, 0.0], abs=1e-3)


def test_fictitious_play_stops_where_nobody_gains() -> None:
    dominant = symmetric_table([[-1, -3], [0, -2]])
    loose = fictitious_play(dominant, rounds=10**9, tolerance=0.1)
    assert loose[0] == pytest.approx([0.0, 1.0], abs=0.2)


def test_fictitious_play_is_finite_where_it_cycles() -> None:
    """Shapley 1964: the averages circle for ever."""
    first = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    second = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    for strategy in fictitious_play([first, second], rounds=200):
        assert strategy.sum() == pytest.approx(1.0)


def test_replicator_approaches_the_equilibrium_and_keeps_every_policy_alive() -> None:
    strategies = projected_replicator(BIASED, steps=20_000, dt=1e-3)
    assert strategies[0] == pytest.approx(EQUILIBRIUM, abs=0.02)
    prisoners = symmetric_table([[-1, -3], [0, -2]])
    last = projected_replicator(prisoners, floor=0.01)
    assert 0.01 <= last[0][0] < 0.05


def test_replicator_at_rest_is_not_played_out() -> None:
    strategies = projected_replicator(np.zeros((2, 3, 3)), steps=10**12)
    assert strategies[0] == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("floor", [0.0, 0.2, 1.0])
def test_replicator_floor_is_never_more_than_uniform(floor: float) -> None:
    strategies = projected_replicator(zero_sum_table([[1, 1, 1], [0, 0, 0], [0, 0, 0]]), steps=2_000, floor=floor)
    assert strategies[0].min() >= min(floor, 1 / 3) * 0.99
    assert strategies[0].sum() == pytest.approx(1.0)


def test_regret_matching_approaches_nash_and_coarse_correlated_equilibria() -> None:
    joint = regret_matching(BIASED, rounds=5_000)
    assert marginals(joint)[0] == pytest.approx(EQUILIBRIUM, abs=0.02)
    three_players = np.random.default_rng(0).normal(size=(3, 3, 3, 3))
    assert cce_gap(three_players, regret_matching(three_players, rounds=3_000)) < 0.05
    shapley = np.array([[[0, 0, 1], [1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]])
    assert cce_gap(shapley, regret_matching(shapley, rounds=3_000)) < 0.05


def test_wrong_options_are_named() -> None:
    with pytest.raises(LudusError, match="rounds must not be negative, not -1"):
        fictitious_play(BIASED, rounds=-1)
    with pytest.raises(LudusError, match="rounds must not be negative, not -1"):
        regret_matching(BIASED, rounds=-1)
    with pytest.raises(LudusError, match="needs steps >= 0, dt > 0 and floor >= 0, not 1, 0"):
        projected_replicator(BIASED, steps=1, dt=0.0)
