"""All that there is to know about a position, for a critic that sees more than the seat it judges.

Invariant: every game has one. A game with a `state_shape` writes its own; of any other it is what all seats see, one
after the other.
"""

from __future__ import annotations

from math import prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ludus.games.protocol import GameSpec, Position, StatePosition


def state_size(spec: GameSpec) -> int:
    """How many numbers the whole state has."""
    return prod(spec.state_shape) if spec.state_shape else prod(spec.observation_shape) * spec.players


def write_state(position: Position, spec: GameSpec, out: NDArray[np.float32]) -> None:
    """Write the whole state into `out`, `[state_size(spec)]`."""
    if spec.state_shape:
        cast("StatePosition", position).state(out.reshape(spec.state_shape))
        return
    for seat, part in enumerate(out.reshape(spec.players, *spec.observation_shape)):
        position.observe(seat, part)
