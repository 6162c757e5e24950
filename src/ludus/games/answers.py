"""What a position answers, read with care: an answer of the wrong kind is an error that names the method that gave it.

Invariant: what a position raises itself passes through as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ludus.errors import EnvError
from ludus.plugin_frames import defined_at

SHOWN = 80
"""Characters of an answer in an error."""


class Pays(Protocol):
    """A position, on a board or of words."""

    def returns(self) -> object:
        """Total reward so far, per seat."""
        ...


def read_returns(position: Pays, players: int) -> tuple[float, ...]:
    """What each seat has earned so far.

    Raises:
        EnvError: it is not one number per seat.
    """
    given = position.returns()
    try:
        totals = tuple(float(value) for value in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise wrong_answer(position.returns, given, f"{players} numbers, one per seat") from error
    if len(totals) != players:
        raise wrong_answer(position.returns, given, f"{players} numbers, one per seat")
    return totals


def wrong_answer(method: Callable[..., object], answer: object, expected: str) -> EnvError:
    """The error of a method that gave something else, with the place where a plugin defines it."""
    shown, place = repr(answer), defined_at(method)
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    name = getattr(method, "__name__", "a method")
    return EnvError(f"{name}() gave {shown}; expected {expected}{f' ({place})' if place else ''}")
