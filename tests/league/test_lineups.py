"""Whom a learner is given to answer: probabilities that sum to 1, and nothing lost on the way through JSON."""

import pytest

from ludus.errors import CorruptRecord, LudusError
from ludus.league.matchmaking.population import LineUps
from ludus.records import PolicyRef

A, B = PolicyRef.parse("main@1"), PolicyRef.parse("main@2")


def test_shares_are_normalised_and_equal_policies_add_up() -> None:
    found = LineUps.of_others([(A, 1.0), (B, 2.0), (A, 1.0)])
    assert found.others == ((A, 0.5), (B, 0.5))
    assert found.policies == (A, B)
    assert found.seat is None


def test_whoever_is_hardly_ever_played_is_left_out() -> None:
    assert LineUps.of_others([(A, 1.0), (B, 1e-9)]).others == ((A, 1.0),)


def test_nobody_to_answer_is_an_error() -> None:
    with pytest.raises(LudusError, match="somebody to answer"):
        LineUps.of_others([(A, 0.0)])


def test_fixed_line_ups_say_where_the_learner_sits() -> None:
    found = LineUps.of_seats([((A, None, B), 1.0), ((B, None, B), 3.0)])
    assert found.seat == 1
    assert dict(found.shares()) == {A: 0.125, B: 0.875}


@pytest.mark.parametrize("line_ups", [LineUps.of_others([(A, 0.3), (B, 0.7)]), LineUps.of_seats([((None, A), 1.0)])])
def test_json_gives_them_back(line_ups: LineUps) -> None:
    assert LineUps.from_json(line_ups.to_json()) == line_ups


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"others": [], "fixed": []},
        {"others": [["main@1", -1.0]], "fixed": []},
        {"others": [["main@1", float("nan")]], "fixed": []},
        {"others": [["main@x", 1.0]], "fixed": []},
        {"others": [], "fixed": [[["main@1", "main@2"], 1.0]]},
        {"others": [["main@1", 1.0]], "fixed": [[["main@1", None], 1.0]]},
    ],
)
def test_what_is_none_is_refused(value: object) -> None:
    with pytest.raises(CorruptRecord):
        LineUps.from_json(value)
