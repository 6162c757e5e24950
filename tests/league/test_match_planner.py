"""The next match: missing before uncertain, what the strategy plays before what it does not, and nothing in vain."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ludus.errors import LudusError
from ludus.league import EmpiricalGame, plan_matches


def make(players: int = 2, policies: str = "abc", *, symmetric: bool = True, zero_sum: bool = True) -> EmpiricalGame:
    game = EmpiricalGame(players, symmetric=symmetric, constant_sum=0.0 if zero_sum else None)
    for policy in policies:
        for player in range(players):
            game.add_policy(policy, player)
    return game


def play(game: EmpiricalGame, *seats: str, times: int = 1, noise: float = 1.0) -> None:
    for number in range(times):
        value = noise * (-1) ** number
        game.record(seats, (value, -value))


def test_missing_pairs_come_first_and_mirrors_never() -> None:
    game = make()
    play(game, "a", "b", times=2)
    play(game, "b", "a", times=2)
    planned = plan_matches(game, 4)
    assert sorted(planned) == [("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")]


def test_seatings_are_balanced() -> None:
    planned = Counter(plan_matches(make(policies="ab"), 10))
    assert planned == {("a", "b"): 5, ("b", "a"): 5}


def test_noisy_pairs_are_played_more_often() -> None:
    game = make(policies="abc", symmetric=False, zero_sum=False)
    for first in "abc":
        for second in "abc":
            play(game, first, second, times=20, noise=3.0 if (first, second) == ("b", "c") else 0.1)
    assert plan_matches(game) == [("b", "c")]


def test_pairs_of_played_policies_come_before_those_nobody_plays() -> None:
    """Only a and b are played: c matters against them, and d too, but c against d does not."""
    game = make(policies="abcd")
    joint = np.zeros((4, 4))
    joint[:2, :2] = 0.25
    planned = plan_matches(game, 10, joint=joint)
    assert not {("c", "d"), ("d", "c")} & {*planned}
    assert {*plan_matches(game, 12, joint=joint, explore=1.0)} >= {("c", "d"), ("d", "c")}


def test_a_new_policy_first_meets_whom_the_others_play() -> None:
    game = make(policies="abc")
    for first, second in [("a", "b"), ("b", "c"), ("a", "c")]:
        play(game, first, second, times=50)
        play(game, second, first, times=50)
    game.add_policy("new")
    joint = np.outer([0.0, 0.2, 0.8], [0.0, 0.2, 0.8])
    assert plan_matches(game, 2, joint=joint) == [("c", "new"), ("new", "c")]


def test_nothing_is_planned_that_is_known_well_enough() -> None:
    game = make(policies="ab")
    assert plan_matches(game, 3, tolerance=100.0) == [("a", "b")]
    play(game, "a", "b", times=8)
    play(game, "b", "a", times=8)
    error = float(game.standard_error()[0, 0, 1])
    assert plan_matches(game, 3, tolerance=error) == []
    assert len(plan_matches(game, 3, tolerance=0.99 * error)) == 1
    assert len(plan_matches(game, 3, tolerance=0.0)) == 3


def test_computed_payoffs_are_never_played() -> None:
    game = make(policies="ab", symmetric=False, zero_sum=False)
    for first in "ab":
        for second in "ab":
            game.record_exact((first, second), (0.0, 0.0))
    assert plan_matches(game, 5) == []
    assert len(plan_matches(game, 5, field="win")) == 5


def test_matches_under_way_count_as_played() -> None:
    game = make(policies="ab")
    assert plan_matches(game, 1) == [("a", "b")]
    assert plan_matches(game, 1, pending={("a", "b"): 1}) == [("b", "a")]
    batch = plan_matches(game, 6)
    one_by_one: list[tuple[str, ...]] = []
    for _ in range(6):
        one_by_one += plan_matches(game, 1, pending=Counter(one_by_one))
    assert one_by_one == batch


def test_three_players_are_planned_over_all_seatings() -> None:
    game = make(3, "ab")
    planned = Counter(plan_matches(game, 6))
    assert planned == Counter(
        {
            seats: 1
            for seats in [
                ("a", "a", "b"),
                ("a", "b", "a"),
                ("b", "a", "a"),
                ("a", "b", "b"),
                ("b", "a", "b"),
                ("b", "b", "a"),
            ]
        }
    )


def test_planned_matches_make_the_table_more_certain_than_drawn_ones() -> None:
    """The same number of games, of pairs whose noise differs, for what the strategy plays."""
    random = np.random.default_rng(0)
    noise = np.exp(1.5 * random.normal(size=(5, 5)))
    joint = np.outer(*[np.array([0.5, 0.5, 0, 0, 0])] * 2)
    weights = np.maximum(joint.sum(axis=0)[None, :], joint.sum(axis=1)[:, None])

    def uncertainty(planned: bool) -> float:
        game = make(policies="abcde", symmetric=False, zero_sum=False)
        for _ in range(300):
            seats = plan_matches(game, 1, joint=joint)[0] if planned else tuple(random.choice([*"abcde"], 2))
            value = noise[game.populations.profile(seats)] * random.normal()
            game.record(seats, (value, -value))
        return float((weights * game.standard_error()[0]).sum())

    assert uncertainty(planned=True) < 0.75 * uncertainty(planned=False)


def test_without_policies_there_is_nothing_to_play() -> None:
    assert plan_matches(EmpiricalGame(2), 3) == []


def test_a_strategy_of_another_table_is_refused() -> None:
    with pytest.raises(LudusError, match=r"the meta-strategy is over \(4, 4\) policies, but the table has \(3, 3\)"):
        plan_matches(make(), joint=np.full((4, 4), 1 / 16))
    with pytest.raises(LudusError, match=r"explore must be in \[0, 1\]"):
        plan_matches(make(), explore=2.0)
