"""A back end of games: `nim:<heap>` for any heap from 2 to 100.

ludus run examples/plugins/nim.yaml --plugin examples/plugins/nim.py
ludus play runs/nim --plugin examples/plugins/nim.py
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ludus import GameSpec, register_backend
from ludus.errors import ConfigError, EnvError

MOST = 3


class Nim:
    """Take one to three from a heap; whoever takes the last wins."""

    def __init__(self, heap: int) -> None:
        self.heap = heap
        self.spec = GameSpec(key=f"nim:{heap}", players=2, actions=MOST, observation_shape=(heap + 1,), max_length=heap)

    def start(self, seed: int) -> "NimPosition":
        return NimPosition(self.heap)


class NimPosition:
    """One game in progress. Nothing in it is left to chance."""

    def __init__(self, heap: int) -> None:
        self.heap, self.mover = heap, 0

    def acting(self) -> Sequence[int]:
        return (self.mover,) if self.heap else ()

    def legal(self, seat: int) -> Sequence[int]:
        return range(min(MOST, self.heap))

    def observe(self, seat: int, out: NDArray[np.float32]) -> None:
        out[:] = 0
        out[self.heap] = 1

    def act(self, actions: Mapping[int, int]) -> None:
        if list(actions) != [self.mover] or actions[self.mover] not in self.legal(self.mover):
            raise EnvError(f"illegal move {actions} with {self.heap} left")
        self.heap -= actions[self.mover] + 1
        self.mover = 1 - self.mover

    def returns(self) -> Sequence[float]:
        if self.heap:
            return (0.0, 0.0)
        return (-1.0, 1.0) if self.mover == 0 else (1.0, -1.0)

    def text(self, seat: int | None = None) -> str:
        return f"{self.heap} left, seat {self.mover} to move"

    def action_text(self, seat: int, action: int) -> str:
        return f"take {action + 1}"


def make_nim(name: str) -> Nim:
    """The game of a key `nim:<name>`."""
    if not name.isdecimal() or not 2 <= int(name) <= 100:
        raise ConfigError(f"game nim:{name}: expected a heap from 2 to 100, such as nim:12")
    return Nim(int(name))


register_backend("nim", make_nim)
