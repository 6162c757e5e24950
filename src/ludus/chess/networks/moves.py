"""The 1,858 moves of lc0's policy, from the mover's view, and where each head's output has them.

Squares count a1, b1, ..., h8. A move is (from, to, promotion): "" for plain moves, which includes knight promotions,
else q, r or b. Castling is the king taking its own rook.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

POLICY_PLANES = 80
"""Planes of the convolutional head; those after the 73rd mean nothing."""
PROMOTIONS = "qrb"
_COMPASS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
"""(file, rank) steps clockwise from north."""
_KNIGHT = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))
_PLANE_PROMOTIONS = "rbq"


class Move(NamedTuple):
    """One entry of the policy."""

    origin: int
    target: int
    promotion: str = ""


@cache
def policy_moves() -> tuple[Move, ...]:
    """All moves in the order of the policy."""
    plain = [
        Move(origin, target) for origin in range(64) for target in range(64) if _is_queen_or_knight_move(origin, target)
    ]
    promotions = [
        Move(48 + file, 56 + to, piece)
        for file in range(8)
        for to in range(max(0, file - 1), min(7, file + 1) + 1)
        for piece in PROMOTIONS
    ]
    return (*plain, *promotions)


@cache
def convolution_map() -> NDArray[np.int32]:
    """`[1858]`: place of each move in the 80 planes, flattened as `plane * 64 + square`.

    Queen moves by direction and distance, then knight moves, then promotions by direction (north-west, north,
    north-east) and piece (r, b, q); the square is the move's origin.
    """
    rays = [(files * steps, ranks * steps) for files, ranks in _COMPASS for steps in range(1, 8)]
    plane_of = {delta: plane for plane, delta in enumerate((*rays, *_KNIGHT))}
    return np.array([_plane(move, plane_of) * 64 + move.origin for move in policy_moves()], np.int32)


@cache
def attention_map() -> NDArray[np.int32]:
    """`[1858]`: place of each move in the attention head's `[64 * 64 + 8 * 24]` logits.

    After `from * 64 + to` come promotions, `from file * 24 + to file * 3 + piece (q, r, b)`.
    """
    return np.array([_attention_place(move) for move in policy_moves()], np.int32)


def _is_queen_or_knight_move(origin: int, target: int) -> bool:
    files, ranks = abs(origin % 8 - target % 8), abs(origin // 8 - target // 8)
    return origin != target and (files == 0 or ranks == 0 or files == ranks or {files, ranks} == {1, 2})


def _plane(move: Move, plane_of: dict[tuple[int, int], int]) -> int:
    files, ranks = move.target % 8 - move.origin % 8, move.target // 8 - move.origin // 8
    if move.promotion:
        return 64 + (files + 1) * 3 + _PLANE_PROMOTIONS.index(move.promotion)
    return plane_of[files, ranks]


def _attention_place(move: Move) -> int:
    if move.promotion:
        return 4096 + move.origin % 8 * 24 + move.target % 8 * 3 + PROMOTIONS.index(move.promotion)
    return move.origin * 64 + move.target
