"""What a reward is, what it is given and what it gives: a finite number of ordinary size, with a note for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from typing import Any, Protocol

from ludus.errors import RewardError


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One response to one task."""

    response: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the task: `prompt`, `answer` and whatever else its taskset has. JSON values."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of a custom reward."""
    seed: int = 0
    """Decides all chance in the reward: the same attempt with the same seed has the same reward."""
    tokens: int | None = None
    """How many tokens were sampled, if whoever asks knows."""

    @property
    def prompt(self) -> str:
        """What was asked."""
        return str(self.inputs.get("prompt", ""))

    def need(self, name: str) -> Any:
        """A field that the task must have. Raises RewardError if it has none."""
        value = self.inputs.get(name)
        if value is None:
            known = ", ".join(sorted(map(str, self.inputs))) or "none"
            raise RewardError(f"the task has no field {name!r}, which the reward needs; it has: {known}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a reward gives: a number, and in words why, for people to read."""

    value: float
    note: str = ""


class Reward(Protocol):
    """Marks attempts, any number at the same time, in one event loop."""

    async def mark(self, attempt: Attempt) -> Mark:
        """What an attempt is worth. A wrong response is worth little; it is no error.

        Raises:
            RolloutError: the reward could not be found. It costs the episode.
        """
        ...

    async def close(self) -> None:
        """Give everything back. Called once, at the end; marks that are under way fail."""
        ...


class Instant:
    """Base of rewards that have nothing to give back."""

    async def close(self) -> None:
        """There is nothing."""


LARGEST = 1e6
"""A reward beyond this is a mistake; it would also drown all others."""
MOST_NOTE = 2_000
SHOWN = 60


def check_value(value: Any) -> float:
    """The value as a float. Raises RewardError if it is not one; the message says what it is."""
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
