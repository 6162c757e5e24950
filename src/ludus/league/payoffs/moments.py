"""Count, sum and sum of squares of numbers, kept as exact fractions.

Invariant: nothing is ever rounded before it is read, so numbers and batches of numbers may arrive in any order, be
merged in any order and go through JSON, and give the same mean and spread to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import nan
from typing import Any


@dataclass(slots=True)
class Moments:
    """Mutable; owned by its cell."""

    count: int = 0
    total: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    _read: tuple[float, float] | None = field(default=None, repr=False, compare=False)
    """Mean and deviations, once they were asked for and until something is added."""

    def add(self, value: float, times: int = 1) -> None:
        """Count a finite number, once or several times."""
        exact = Fraction(value)
        self.count += times
        self.total += exact * times
        self.squares += exact * exact * times
        self._read = None

    def merge(self, other: Moments) -> None:
        """Count all numbers of another one too."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self._read = None

    @property
    def mean(self) -> float:
        """Mean, correctly rounded; NaN without numbers."""
        return self._rounded()[0]

    @property
    def deviations(self) -> float:
        """Sum of squared distances from the mean, correctly rounded; 0 without numbers."""
        return self._rounded()[1]

    def state(self) -> list[str]:
        """JSON from which `from_state` restores it, with the count."""
        return [str(self.total), str(self.squares)]

    @classmethod
    def from_state(cls, count: int, state: list[Any]) -> Moments:
        """Restore exactly."""
        return cls(count, Fraction(state[0]), Fraction(state[1]))

    def _rounded(self) -> tuple[float, float]:
        if not self.count:
            return nan, 0.0
        if self._read is None:
            mean = self.total / self.count
            self._read = float(mean), float(self.squares - self.total * mean)
        return self._read
