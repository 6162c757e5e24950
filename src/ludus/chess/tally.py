"""How many games were played, and how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has happened so far."""

    games: int = 0
    positions: int = 0
    failed: int = 0
    last_failure: str = ""
    results: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, *, positions: int, result: str, reason: str) -> None:
        """Count a game."""
        self.games += 1
        self.positions += positions
        self.results[result] += 1
        self.reasons[reason] += 1


Progress = Callable[[Tally], None]
