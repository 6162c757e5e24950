"""What counts as a reward's value: a finite number of ordinary size, and nothing that merely looks like one."""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import Any

from ludus.errors import RewardError
from ludus.rewards.attempt import Mark

LARGEST = 1e6
"""A reward beyond this is a mistake; it would also drown all others."""
MOST_NOTE = 2_000
SHOWN = 60


def check_value(value: Any) -> float:
    """The value as a float.

    Raises:
        RewardError: it is not one; the message says what it is.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise RewardError(f"expected a number, got {_shown(value)}")
    try:
        number = float(value)
    except (OverflowError, ValueError, ArithmeticError) as error:
        raise RewardError(f"expected a number, got {type(value).__name__} that is none: {error}") from error
    if not isfinite(number) or abs(number) > LARGEST:
        raise RewardError(f"expected a number between -{LARGEST:g} and {LARGEST:g}, got {number!r}")
    return number


def check_mark(returned: Any) -> Mark:
    """What a user's reward returned, a number or a `Mark`, as a `Mark`. Raises as `check_value` does."""
    if not isinstance(returned, Mark):
        return Mark(value=check_value(returned))
    note = returned.note if isinstance(returned.note, str) else repr(returned.note)
    return Mark(value=check_value(returned.value), note=note[:MOST_NOTE])


def _shown(value: Any) -> str:
    if value is None:
        return "nothing (None); does the function return on every path?"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}; a reward is one number for one response"
    if isinstance(value, bool | str):
        return f"the {type(value).__name__} {repr(value)[:SHOWN]}; give it as a float"
    return f"a {type(value).__name__}; give it as a float"
