"""Successes and failures that fade with time.

Invariant: what has faded to nothing is forgotten, and at most `MOST` keys are remembered (the oldest go first), so
memory and state are bounded however long a run is. The state is exact: floats go through JSON unchanged.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

MOST = 100_000
_NOTHING = 0.01
"""Attempts below which evidence counts as faded."""


class Evidence:
    """By key, how often something was seen to succeed and to fail, at which time."""

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._seen: dict[int, tuple[float, float, int]] = {}
        """In the order in which keys were last added to."""

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, key: int, successes: float, failures: float, time: int) -> None:
        """Add what was seen now; `time` never goes back."""
        old_successes, old_failures = self.at(key, time)
        self._seen.pop(key, None)
        self._seen[key] = (old_successes + successes, old_failures + failures, time)
        self._forget(time)

    def at(self, key: int, time: int) -> tuple[float, float]:
        """Successes and failures as they count now."""
        if key not in self._seen:
            return 0.0, 0.0
        successes, failures, then = self._seen[key]
        fading = 0.5 ** ((time - then) / self._half_life)
        return successes * fading, failures * fading

    def state(self) -> list[list[float]]:
        """`[key, successes, failures, time]` of each, oldest first."""
        return [[key, *seen] for key, seen in self._seen.items()]

    def load_state(self, state: Any, *, most_key: int) -> None:
        """Take back what `state` gave; keys are below `most_key`."""
        seen: dict[int, tuple[float, float, int]] = {}
        for key, successes, failures, time in state:
            if not 0 <= key < most_key or not isfinite(successes + failures):
                raise ValueError(f"evidence {[key, successes, failures, time]}")
            seen[int(key)] = (float(successes), float(failures), int(time))
        self._seen = seen

    def _forget(self, time: int) -> None:
        while self._seen:
            oldest = next(iter(self._seen))
            if len(self._seen) <= MOST and sum(self.at(oldest, time)) >= _NOTHING:
                return
            del self._seen[oldest]
