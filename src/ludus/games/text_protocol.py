"""What a game of words is: observations and moves are text, and a move may be wrong.

A `TextGame` starts positions as a `Game` does, from a seed that decides all chance. A `TextPosition` tells a seat what
is new since it last looked and takes its move as text. Seats act one at a time; where a game lets them act together,
the position asks for them in turn and shows nobody what others have chosen before all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ludus.errors import EnvError
from ludus.games.protocol import GameSpec


class InvalidMove(EnvError):
    """A seat's move was not one that the rules allow; the position is as it was."""


@runtime_checkable
class TextPosition(Protocol):
    """One game in progress. Mutable; owned by one runner."""

    def acting(self) -> int | None:
        """The seat that must act now; None when the game is over."""
        ...

    def news(self, seat: int) -> str:
        """What the acting seat is told before this move: at its first move the rules and the position, later what has
        happened since its last move. Asking again before the move gives the same text."""
        ...

    def moves(self, seat: int) -> Sequence[str] | None:
        """The legal moves of the acting seat as it would write them; None where a game cannot list them."""
        ...

    def act(self, seat: int, move: str) -> None:
        """Make the acting seat's move.

        Raises:
            InvalidMove: the rules do not allow it.
        """
        ...

    def returns(self) -> Sequence[float]:
        """Total reward so far, per seat."""
        ...

    def text(self) -> str:
        """Show the position as an onlooker sees it."""
        ...


@runtime_checkable
class TextGame(Protocol):
    """A game of words that can be played any number of times."""

    @property
    def spec(self) -> GameSpec:
        """What the game is; `actions` is 0 and `observation_shape` empty. Constant."""
        ...

    @property
    def blocks(self) -> bool:
        """Whether its code may take long enough that it should run beside the event loop, in a thread."""
        ...

    def start(self, seed: int) -> TextPosition:
        """Begin a game; the seed decides all chance."""
        ...
