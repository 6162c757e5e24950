"""Guess a bit, twice. Some of these games misbehave for one seed in sixteen; some always."""

import os
import signal
import time

import numpy as np

from ludus import GameSpec, register_game
from ludus.errors import EnvError


class Guess:
    """Two players in turn; whoever guesses the bit that the seed hides gets more."""

    fault = ""
    always = False

    def __init__(self) -> None:
        self.spec = GameSpec(
            key=f"bad_{self.fault or 'none'}{'_always' if self.always else ''}",
            players=2,
            actions=2,
            observation_shape=(3,),
            max_length=4,
            is_zero_sum=True,
        )

    def start(self, seed: int) -> "GuessPosition":
        return GuessPosition(seed, self.fault if self.always or seed % 16 == 0 else "")


class GuessPosition:
    def __init__(self, seed: int, fault: str) -> None:
        self.bit, self.fault, self.moves = seed >> 5 & 1, fault, []

    def acting(self) -> tuple[int, ...]:
        return (len(self.moves) % 2,) if len(self.moves) < 4 else ()

    def legal(self, seat: int) -> list[int]:
        return [0, 1]

    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = [self.bit, len(self.moves), seat]

    def act(self, actions: dict[int, int]) -> None:
        if list(actions) != list(self.acting()) or not set(actions.values()) <= {0, 1}:
            raise EnvError(f"illegal {actions}")
        if len(self.moves) == 2:
            self._misbehave()
        self.moves += actions.values()

    def _misbehave(self) -> None:
        if self.fault == "raises":
            raise ValueError("the dice fell off the table")
        if self.fault == "hangs":
            time.sleep(3600)
        if self.fault == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)

    def returns(self) -> list[float]:
        if self.acting():
            return [0.0, 0.0]
        if self.fault == "nan":
            return [float("nan"), float("nan")]
        right = [sum(move == self.bit for move in self.moves[seat::2]) for seat in (0, 1)]
        score = float(np.sign(right[0] - right[1]))
        return [score, -score]

    def text(self, seat: int | None = None) -> str:
        return f"moves {self.moves}"

    def action_text(self, seat: int, action: int) -> str:
        return str(action)


for fault in ("", "raises", "hangs", "crashes", "nan"):
    for always in (False, True):
        kind = type(f"Guess_{fault}_{always}", (Guess,), {"fault": fault, "always": always})
        register_game(f"bad_{fault or 'none'}{'_always' if always else ''}", kind)
