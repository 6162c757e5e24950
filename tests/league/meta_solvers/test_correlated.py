"""Correlated equilibria: Aumann's chicken, three players by their inequalities, and each way to choose."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array
from ludus.league.solvers import cce_gap, ce_gap, coarse_correlated, correlated, expected_payoffs, symmetric_table

CHICKEN = symmetric_table([[6, 2], [7, 0]])
SELECTS = ["max_entropy", "max_gini", "max_welfare"]


def largest_gain_of_ce(table: Array, joint: Array) -> float:
    """By the definition, profile by profile: the most a player gains by playing b whenever it is told a."""
    gains = []
    for player, count in enumerate(joint.shape):
        for told, played in product(range(count), repeat=2):
            gain = 0.0
            for profile in product(*map(range, joint.shape)):
                if profile[player] == told:
                    instead = (*profile[:player], played, *profile[player + 1 :])
                    gain += joint[profile] * (table[player][instead] - table[player][profile])
            gains.append(gain)
    return max(gains)


def largest_gain_of_cce(table: Array, joint: Array) -> float:
    gains = []
    for player, count in enumerate(joint.shape):
        for played in range(count):
            gain = 0.0
            for profile in product(*map(range, joint.shape)):
                instead = (*profile[:player], played, *profile[player + 1 :])
                gain += joint[profile] * (table[player][instead] - table[player][profile])
            gains.append(gain)
    return max(gains)


def entropy(joint: Array) -> float:
    positive = joint[joint > 0]
    return float(-(positive * np.log(positive)).sum())


def test_chicken_has_aumanns_equilibrium_of_highest_welfare() -> None:
    joint = correlated(CHICKEN, select="max_welfare")
    assert joint == pytest.approx(np.array([[0.5, 0.25], [0.25, 0.0]]), abs=1e-9)
    assert expected_payoffs(CHICKEN, joint) == pytest.approx([5.25, 5.25])


def test_chicken_has_its_most_even_equilibrium() -> None:
    """By hand: least a^2 + 2 b^2 + c^2 with a + 2 b + c = 1 and 2 c <= b, the only constraint that binds."""
    joint = correlated(CHICKEN, select="max_gini")
    a, b, c = joint[0, 0], joint[0, 1], joint[1, 1]
    assert joint[1, 0] == pytest.approx(b)
    assert (a, b, c) == pytest.approx((9 / 34, 10 / 34, 5 / 34), abs=1e-9)


@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("shape", [(2, 3, 2), (3, 3, 3), (2, 2, 2, 2), (4, 5)])
def test_inequalities_hold_for_any_number_of_players(shape: tuple[int, ...], select: str) -> None:
    table = np.random.default_rng(len(shape)).normal(size=(len(shape), *shape))
    for solver, largest_gain, gap in (
        (correlated, largest_gain_of_ce, ce_gap),
        (coarse_correlated, largest_gain_of_cce, cce_gap),
    ):
        joint = solver(table, select=select)  # type: ignore[operator]
        assert joint.sum() == pytest.approx(1.0)
        assert largest_gain(table, joint) <= 1e-9
        assert gap(table, joint) <= 1e-8


def test_three_players_who_want_to_disagree() -> None:
    """Whoever is alone with its choice pays 1 to each of the others; welfare is highest where nobody agrees wholly."""
    table = np.zeros((3, 2, 2, 2))
    for profile in product((0, 1), repeat=3):
        for player in range(3):
            alone = profile.count(profile[player]) == 1
            table[(player, *profile)] = -2.0 if alone else 1.0 if len(set(profile)) == 2 else 0.0
    joint = correlated(table)
    assert largest_gain_of_ce(table, joint) <= 1e-9
    assert joint == pytest.approx(joint.transpose(2, 0, 1), abs=1e-9)
    assert joint == pytest.approx(joint[::-1, ::-1, ::-1], abs=1e-9)


def test_each_choice_is_best_at_what_it_chooses() -> None:
    table = np.random.default_rng(5).normal(size=(3, 3, 2, 3))
    chosen = {select: correlated(table, select=select) for select in SELECTS}  # type: ignore[arg-type]
    welfare = {select: expected_payoffs(table, joint).sum() for select, joint in chosen.items()}
    gini = {select: 1 - (joint**2).sum() for select, joint in chosen.items()}
    disorder = {select: entropy(joint) for select, joint in chosen.items()}
    assert max(welfare, key=welfare.__getitem__) == "max_welfare"
    assert max(gini, key=gini.__getitem__) == "max_gini"
    assert max(disorder, key=disorder.__getitem__) == "max_entropy"
    assert min(np.diff(sorted(disorder.values()))) > 1e-3


def test_highest_entropy_is_not_beaten_on_the_way_to_any_other_equilibrium() -> None:
    """A convex set: if a better one existed, entropy would grow along the straight line towards it."""
    table = np.random.default_rng(6).normal(size=(2, 4, 4))
    best = correlated(table)
    for select in ("max_gini", "max_welfare"):
        other = correlated(table, select=select)  # type: ignore[arg-type]
        for share in (1e-4, 1e-2, 0.3):
            assert entropy((1 - share) * best + share * other) <= entropy(best) + 1e-12


def test_gaps_are_what_players_could_gain() -> None:
    """Both swerve, both dare: told to dare, each gains 2 by swerving; told to swerve, 1 by daring."""
    joint = np.array([[0.5, 0.0], [0.0, 0.5]])
    assert ce_gap(CHICKEN, joint) == pytest.approx(2 * (0.5 * 1 + 0.5 * 2))
    assert cce_gap(CHICKEN, joint) == pytest.approx(2 * (0.5 * 2 + 0.0))


def test_epsilon_allows_that_much_and_no_more() -> None:
    joint = correlated(CHICKEN, epsilon=0.05)
    assert 0 < largest_gain_of_ce(CHICKEN, joint) <= 0.05 + 1e-9
    assert correlated(CHICKEN, epsilon=1e300) == pytest.approx(np.full((2, 2), 0.25))
    assert entropy(correlated(CHICKEN, epsilon=0.05)) > entropy(correlated(CHICKEN))


def test_dominated_policies_are_not_played_in_a_ce() -> None:
    prisoners = symmetric_table([[-1, -3], [0, -2]])
    for select in SELECTS:
        assert correlated(prisoners, select=select) == pytest.approx(np.array([[0, 0], [0, 1]]), abs=1e-9)  # type: ignore[arg-type]


def test_players_of_very_different_stakes_are_treated_alike() -> None:
    stakes = np.array([1e9, 1e-9]).reshape(2, 1, 1)
    assert correlated(CHICKEN * stakes) == pytest.approx(correlated(CHICKEN), abs=1e-8)


def test_wrong_options_are_named() -> None:
    with pytest.raises(LudusError, match="select is max_entropy, max_gini or max_welfare, not 'fair'"):
        correlated(CHICKEN, select="fair")  # type: ignore[arg-type]
    with pytest.raises(LudusError, match="epsilon must be finite and not negative, not -1"):
        correlated(CHICKEN, epsilon=-1.0)
