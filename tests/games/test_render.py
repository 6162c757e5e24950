"""Observations as text."""

from __future__ import annotations

import numpy as np

from ludus.games.render import render_observation


def test_cell_shows_its_first_plane_and_full_planes_are_left_out() -> None:
    board = np.zeros((2, 3, 3), np.float32)
    board[0, 1, 0] = board[1, 2, 1] = 1
    board[:, :, 2] = 1
    assert render_observation(board) == ".x.\n..o"


def test_vector_shows_what_is_not_zero() -> None:
    assert render_observation(np.array([0, 2, 0, 0.5], np.float32)) == "1=2 3=0.5"
    assert render_observation(np.zeros(3, np.float32)) == "(nothing to see)"
