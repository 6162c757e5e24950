"""Boards as text, for games that cannot show themselves. Built from an observation, so nothing hidden is shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.games.protocol import GameSpec, Position

EMPTY = "."
SYMBOLS = "xoabcdefghijklmnpqrstuvwyz"
"""One for each observation plane, the planes of the seat and its opponent first."""
MAX_PLANES = len(SYMBOLS)


def render_seen(position: Position, spec: GameSpec, seat: int) -> str:
    """Draw what a seat sees of a position."""
    seen = np.zeros(spec.observation_shape, np.float32)
    position.observe(seat, seen)
    return render_observation(seen)


def render_observation(observation: NDArray[np.float32]) -> str:
    """Draw `[H, W, C]` as a board (each cell shows its first set plane), anything else as its nonzero entries."""
    if observation.ndim == 3:
        return _render_board(observation[:, :, :MAX_PLANES] > 0)
    flat = observation.ravel()
    entries = [f"{index}={flat[index]:g}" for index in np.flatnonzero(flat)]
    return " ".join(entries) or "(nothing to see)"


def _render_board(planes: NDArray[np.bool_]) -> str:
    # A plane that is set everywhere says something about the game, such as the colour to move, not about a cell.
    planes = planes & ~planes.all(axis=(0, 1))
    first = np.where(planes.any(axis=2), planes.argmax(axis=2), -1)
    return "\n".join("".join(EMPTY if plane < 0 else SYMBOLS[plane] for plane in row) for row in first)
