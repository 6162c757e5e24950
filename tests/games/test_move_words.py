"""Moves as short words, and back."""

from __future__ import annotations

import pytest

from ludus.games.move_text import find_move, listed, shorten


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x(0,0)", "x(2,1)"], ["0,0", "2,1"]),
        (["[P0]Bid: 1", "[P0]Bid: 12"], ["Bid: 1", "Bid: 12"]),
        (["Player: 0 Action: Draw upcard", "Player: 0 Action: Pass"], ["Draw upcard", "Pass"]),
        (["player=1 move=Call", "player=1 move=Fold"], ["Call", "Fold"]),
        (["59 - 8/3/2", "137 - 8/3 6/5"], ["8/3/2", "8/3 6/5"]),
        (["B a1", "B PASS"], ["a1", "PASS"]),
        (["(Play 0)", "(Reveal player +1 rank 5)"], ["Play 0", "Reveal player +1 rank 5"]),
        (["Pass", "Bet"], ["Pass", "Bet"]),
        (["S(6,0)-(5,0)", "Flip(0,1)"], ["S(6,0)-(5,0)", "Flip(0,1)"]),
    ],
)
def test_who_moves_is_not_part_of_the_word(names: list[str], words: list[str]) -> None:
    assert shorten(names) == words


def test_words_stay_whole_where_short_ones_would_mean_two_moves() -> None:
    assert shorten(["x(0,0)", "o(0,0)"]) == ["x(0,0)", "o(0,0)"]


def test_equal_names_are_told_apart() -> None:
    assert shorten(["go", "stop", "go"]) == ["go #0", "stop", "go #2"]


def test_stones_are_only_dropped_where_they_are_told() -> None:
    assert shorten(["o15", "o1"]) == ["o15", "o1"]
    assert shorten(["x0", "x6"], stones="xo") == ["0", "6"]


@pytest.mark.parametrize("text", ["Bid: 1", " Bid: 1\n", "bid:1", "BID : 1"])
def test_case_and_spaces_do_not_matter(text: str) -> None:
    assert find_move(text, ["Bid: 0", "Bid: 1"]) == 1


def test_case_matters_where_it_makes_another_move() -> None:
    chess = ["bxc3", "Bxc3"]
    assert find_move("Bxc3", chess) == 1
    assert find_move("bxc3", chess) == 0
    assert find_move("BXC3", chess) is None


def test_anything_else_means_no_move() -> None:
    assert find_move("Bid: 11", ["Bid: 1"]) is None
    assert find_move("", ["Bid: 1"]) is None


def test_long_lists_are_cut_and_counted() -> None:
    assert listed(["a", "b", "c"], most=3) == "a b c"
    assert listed(["a", "b", "c"], most=2) == "a b ... (3 in all)"
    assert listed(["go on", "stop"], most=2) == "go on | stop"
