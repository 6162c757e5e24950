"""The order of the 1,858 moves, and where the heads have them."""

from __future__ import annotations

import numpy as np

from ludus.chess.networks import attention_map, convolution_map, policy_moves


def test_there_are_1858_moves_and_each_is_there_once() -> None:
    moves = policy_moves()
    assert len(moves) == len(set(moves)) == 1858
    assert sum(bool(move.promotion) for move in moves) == 66
    assert moves[0] == (0, 1, "")  # a1b1
    assert moves[1792] == (48, 56, "q")  # a7a8q
    assert moves[-1] == (55, 63, "b")  # h7h8b


def test_each_move_has_a_place_of_its_own_in_every_head() -> None:
    for places, size in ((convolution_map(), 73 * 64), (attention_map(), 4096 + 192)):
        assert len(np.unique(places)) == 1858
        assert places.min() >= 0
        assert places.max() < size


def test_places_are_those_that_lc0_has() -> None:
    """A pawn's first step north, a knight's jump, castling kingside, a promotion to the left: planes and squares."""
    index = {tuple(move): place for place, move in enumerate(policy_moves())}
    planes, pairs = convolution_map(), attention_map()
    assert planes[index[12, 20, ""]] == 0 * 64 + 12  # e2e3: north by one
    assert planes[index[12, 28, ""]] == 1 * 64 + 12  # e2e4: north by two
    assert planes[index[4, 7, ""]] == (2 * 7 + 2) * 64 + 4  # e1h1: east by three
    assert planes[index[6, 21, ""]] == 63 * 64 + 6  # g1f3: the last of the knight's jumps
    assert planes[index[52, 59, "r"]] == 64 * 64 + 52  # e7d8r
    assert planes[index[52, 60, "q"]] == (64 + 3 + 2) * 64 + 52  # e7e8q
    assert pairs[index[12, 28, ""]] == 12 * 64 + 28
    assert pairs[index[52, 59, "r"]] == 4096 + 4 * 24 + 3 * 3 + 1
