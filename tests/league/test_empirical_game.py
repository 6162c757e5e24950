"""Empirical games: means and uncertainty of every field, shared populations, and the same table in any order."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.errors import LudusError
from ludus.league import EmpiricalGame
from ludus.league.payoffs.cells import Moments

Result = tuple[tuple[str, str], tuple[float, float]]


def two_populations() -> EmpiricalGame:
    game = EmpiricalGame(2)
    for policy in ("a", "b"):
        game.add_policy(policy, 0)
    game.add_policy("x", 1)
    return game


def shared(players: int = 2, policies: str = "ab", constant_sum: float | None = None) -> EmpiricalGame:
    game = EmpiricalGame(players, symmetric=True, constant_sum=constant_sum)
    for policy in policies:
        game.add_policy(policy)
    return game


def test_every_field_has_its_mean_and_missing_cells_are_nan() -> None:
    game = two_populations()
    for returns in [(2.0, -2.0), (-1.0, 1.0), (0.5, 0.5)]:
        game.record(("a", "x"), returns)
    assert game.games().tolist() == [[3], [0]]
    assert game.mean()[:, 0, 0] == pytest.approx([0.5, -0.5 / 3])
    assert game.mean("score")[:, 0, 0].tolist() == [0.5, 0.5]
    assert game.mean("win")[:, 0, 0] == pytest.approx([1 / 3, 1 / 3])
    assert game.mean("lose")[:, 0, 0] == pytest.approx([1 / 3, 1 / 3])
    assert np.isnan(game.mean()[:, 1, 0]).all()


def test_custom_fields_are_reported_with_every_match() -> None:
    game = EmpiricalGame(2, custom=["goals"])
    game.add_policy("a", 0)
    game.add_policy("x", 1)
    game.record(("a", "x"), (1, -1), goals=(3, 1))
    game.record(("a", "x"), (0, 0), goals=(2, 2))
    assert game.mean("goals")[:, 0, 0].tolist() == [2.5, 1.5]
    with pytest.raises(LudusError, match=r"a - x: a match reports returns and \['goals'\], not \[\]"):
        game.record(("a", "x"), (1, -1))


def test_uncertainty_is_the_standard_error_with_an_imagined_deviation() -> None:
    game = two_populations()
    assert game.standard_error()[0] == pytest.approx(np.full((2, 1), np.sqrt(2.0)))
    assert game.half_width()[0].tolist() == [[np.inf], [np.inf]]
    values = [1.0, -1.0, 0.5, 0.0]
    for value in values:
        game.record(("a", "x"), (value, -value))
    deviations = np.var(values) * len(values)
    assert game.standard_error()[0, 0, 0] == pytest.approx(np.sqrt(deviations + 1.0) / 4)
    for _ in range(3_000):
        game.record(("b", "x"), (1.0, -1.0))
        game.record(("b", "x"), (-1.0, 1.0))
    assert game.standard_error()[0, 1, 0] == pytest.approx(1 / np.sqrt(6_000), rel=1e-3)


def test_three_wins_in_a_row_are_not_certainty() -> None:
    game = two_populations()
    for _ in range(3):
        game.record(("a", "x"), (1.0, -1.0))
    assert game.mean("win")[0, 0, 0] == 1.0
    assert 0.4 < game.half_width("win")[0, 0, 0] < 0.6
    assert game.half_width("win", level=0.99)[0, 0, 0] > game.half_width("win")[0, 0, 0]


@pytest.mark.parametrize(("field", "least"), [("payoff", 0.93), ("win", 0.9)])
def test_intervals_cover_the_truth_about_as_often_as_they_say(field: str, least: float) -> None:
    """Of shares of few games, which come in steps, a little less often."""
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        game = two_populations()
        for value in random.normal(0.3, 1.0, 12) if field == "payoff" else np.where(random.random(12) < 0.3, 1.0, -1.0):
            game.record(("a", "x"), (value, -value))
        covered += abs(game.mean(field)[0, 0, 0] - 0.3) <= game.half_width(field)[0, 0, 0]
    assert least <= covered / 400 <= 0.98


def test_shared_populations_are_averaged_over_seatings_alike() -> None:
    """The first seat is worth 1; one seating was played ten times as often."""
    game = shared()
    for _ in range(10):
        game.record(("a", "b"), (1.5, -0.5))
    game.record(("b", "a"), (0.5, 0.5))
    assert game.mean()[:, 0, 1].tolist() == [1.0, 0.0]
    assert game.mean()[:, 1, 0].tolist() == [0.0, 1.0]
    errors = game.seat_errors()
    assert game.standard_error()[0, 0, 1] == pytest.approx(np.hypot(errors[0, 0, 1], errors[1, 1, 0]) / 2)


def test_seats_of_one_policy_are_one_player_who_sat_twice() -> None:
    game = shared(3)
    game.record(("a", "a", "b"), (3.0, -1.0, 0.0))
    assert game.mean()[:, 0, 0, 1].tolist() == [1.0, 1.0, 0.0]
    assert game.mean("win")[:, 0, 0, 1].tolist() == [0.0, 0.0, 0.0]
    assert game.mean("score")[:, 0, 1, 0].tolist() == [0.5, 0.0, 0.5]
    for seats in set(permutations("aab")):
        assert not np.isnan(game.mean()[(slice(None), *game.populations.profile(seats))]).any()


def test_mirror_matches_of_constant_sum_need_not_be_played() -> None:
    game = shared(constant_sum=1.0)
    assert np.diag(game.mean()[0]).tolist() == [0.5, 0.5]
    assert np.diag(game.standard_error()[0]).tolist() == [0.0, 0.0]
    assert np.isnan(game.mean()[0, 0, 1])
    with pytest.raises(LudusError, match=r"a - b: returns must add up to 1\.0, but these do to 0\.0"):
        game.record(("a", "b"), (1.0, -1.0))


def test_what_was_computed_is_certain_whatever_was_played() -> None:
    game = two_populations()
    game.record(("a", "x"), (1.0, -1.0))
    game.record_exact(("a", "x"), (0.25, -0.25))
    game.record_exact(("a", "x"), (0.25, -0.25))
    assert game.mean()[:, 0, 0].tolist() == [0.25, -0.25]
    assert game.standard_error()[:, 0, 0].tolist() == [0.0, 0.0]
    assert game.standard_error("score")[0, 0, 0] > 0.0
    with pytest.raises(LudusError, match=r"a - x is known to pay \(0\.25, -0\.25\), not \(0\.5, -0\.5\)"):
        game.record_exact(("a", "x"), (0.5, -0.5))


def test_tables_grow_with_their_populations() -> None:
    game = two_populations()
    game.record(("a", "x"), (1.0, -1.0))
    assert game.add_policy("y", 1) == 1
    assert game.add_policy("y", 1) == 1
    assert game.mean().shape == (2, 2, 2)
    assert game.mean()[0, 0, 0] == 1.0
    assert game.populations.names == (("a", "b"), ("x", "y"))


policy = st.sampled_from("ab")
results = st.lists(
    st.tuples(st.tuples(policy, policy), st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))), max_size=12
)


def table_of(matches: list[Result], symmetric: bool) -> EmpiricalGame:
    game = EmpiricalGame(2, symmetric=symmetric)
    for name in "ab":
        for player in (0, 1):
            game.add_policy(name, player)
    for seats, returns in matches:
        game.record(seats, returns)
    return game


@settings(max_examples=60)
@given(matches=results, cut=st.integers(0, 12), symmetric=st.booleans(), data=st.data())
def test_any_order_and_any_merge_give_the_same_table(
    matches: list[Result], cut: int, symmetric: bool, data: st.DataObject
) -> None:
    straight = table_of(matches, symmetric)
    shuffled = table_of(data.draw(st.permutations(matches)), symmetric)
    merged = table_of(matches[cut:], symmetric)
    merged.merge(table_of(matches[:cut], symmetric))
    through_json = EmpiricalGame.from_state(json.loads(json.dumps(merged.state())))
    for other in (shuffled, merged, through_json):
        assert json.dumps(other.state()) == json.dumps(straight.state())
        for field in ("payoff", "score", "win", "lose"):
            assert other.mean(field).tobytes() == straight.mean(field).tobytes()
            assert other.standard_error(field).tobytes() == straight.standard_error(field).tobytes()


def test_a_resumed_table_goes_on_exactly() -> None:
    whole, first = two_populations(), two_populations()
    first.record(("a", "x"), (0.1, -0.1))
    first.record_exact(("b", "x"), (1 / 3, -1 / 3))
    resumed = EmpiricalGame.from_state(json.loads(json.dumps(first.state())))
    for game in (whole, resumed):
        game.add_policy("y", 1)
    whole.record(("a", "x"), (0.1, -0.1))
    whole.record_exact(("b", "x"), (1 / 3, -1 / 3))
    for game in (whole, resumed):
        game.record(("a", "y"), (0.3, -0.3))
    assert resumed.state() == whole.state()


def test_merging_matches_policies_by_name() -> None:
    mine, theirs = shared(policies="ab"), shared(policies="ba")
    theirs.record(("b", "a"), (1.0, 0.0))
    mine.merge(theirs)
    assert mine.mean()[:, 1, 0].tolist() == [1.0, 0.0]
    stranger = shared(policies="abc")
    stranger.record(("c", "a"), (1.0, 0.0))
    with pytest.raises(LudusError, match="policy c is not in the population of player 0; add it first"):
        mine.merge(stranger)
    with pytest.raises(LudusError, match="tables of different kinds cannot be merged"):
        mine.merge(two_populations())


def test_moments_of_large_numbers_with_a_small_spread_are_exact() -> None:
    """Where sums of squares in floating point give a negative variance."""
    moments = Moments()
    for value in (1e9, 1e9 + 1, 1e9 + 2):
        moments.add(value)
    assert moments.mean == 1e9 + 1
    assert moments.deviations == 2.0


def test_what_is_no_match_is_refused_with_a_sentence() -> None:
    game = two_populations()
    with pytest.raises(LudusError, match="policy z is not in the population of player 1; add it first"):
        game.record(("a", "z"), (1, -1))
    with pytest.raises(LudusError, match="a match has 2 seats, not 3: a - x - x"):
        game.record(("a", "x", "x"), (1, -1, 0))
    with pytest.raises(LudusError, match="a - x: payoff must be 2 finite numbers, not"):
        game.record(("a", "x"), (float("nan"), 0))
    with pytest.raises(LudusError, match="there is no field 'goals'; there are payoff, score, win, lose"):
        game.mean("goals")
    with pytest.raises(LudusError, match="there is no player 2; they are numbered from 0 to 1"):
        game.add_policy("a", 2)
    with pytest.raises(LudusError, match="at least 2 players, not 1"):
        EmpiricalGame(1)
    with pytest.raises(LudusError, match="custom fields need names of their own"):
        EmpiricalGame(2, custom=["win"])
    with pytest.raises(LudusError, match="payoff_spread must be positive and finite, not 0"):
        EmpiricalGame(2, payoff_spread=0)
