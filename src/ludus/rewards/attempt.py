"""What a reward is given, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        """A field that the task must have.

        Raises:
            RewardError: it has none.
        """
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
