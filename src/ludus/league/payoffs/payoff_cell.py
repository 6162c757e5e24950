"""All games of one profile of policies: how many, who won, and the exact moments of what each player got.

Invariants: `wins[k] + losses[k] <= games` for every player k, and the rest are draws. Moments are kept as exact
fractions: nothing is rounded before it is read, so games and batches of games may arrive in any order, be merged in any
order and go through JSON, and give the same mean and spread to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from fractions import Fraction
from math import nan
from typing import Any

from ludus.league.payoffs.pair_payoffs import points

FIELDS = ("payoff", "score", "win", "lose")
"""What is known of every game. Score: 1 for a win, 1/2 for a draw, 0 for a defeat. A player wins with the only best
return, draws with a shared one, and loses with any other."""


@dataclass(slots=True)
class Moments:
    """Count, sum and sum of squares of numbers. Mutable; owned by its cell."""

    count: int = 0
    total: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    _read: tuple[float, float] | None = dataclass_field(default=None, repr=False, compare=False)
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


class PayoffCell:
    """Mutable; owned by its empirical game."""

    __slots__ = ("games", "losses", "reported", "wins")

    def __init__(self, players: int, custom: Sequence[str] = ()) -> None:
        self.games = 0
        self.wins = [0] * players
        self.losses = [0] * players
        self.reported = {field: [Moments() for _ in range(players)] for field in ("payoff", *custom)}
        """Of what matches report: moments by field and player."""

    def add(self, reported: Mapping[str, Sequence[float]]) -> None:
        """Count one game by what each player got, as payoff and in the custom fields."""
        self.games += 1
        for player, won in enumerate(points(reported["payoff"])):
            self.wins[player] += won == 1.0
            self.losses[player] += won == 0.0
        for field, moments in self.reported.items():
            for each, value in zip(moments, reported[field], strict=True):
                each.add(value)

    def merge(self, other: PayoffCell) -> None:
        """Count all games of another cell too."""
        self.games += other.games
        self.wins = [a + b for a, b in zip(self.wins, other.wins, strict=True)]
        self.losses = [a + b for a, b in zip(self.losses, other.losses, strict=True)]
        for field, moments in self.reported.items():
            for mine, theirs in zip(moments, other.reported[field], strict=True):
                mine.merge(theirs)

    def moments(self, field: str, player: int) -> Moments:
        """Exact moments of a field for one player."""
        if field in self.reported:
            return self.reported[field][player]
        won, lost = self.wins[player], self.losses[player]
        values = {"score": (1.0, 0.5, 0.0), "win": (1.0, 0.0, 0.0), "lose": (0.0, 0.0, 1.0)}[field]
        found = Moments()
        for value, times in zip(values, (won, self.games - won - lost, lost), strict=True):
            found.add(value, times)
        return found

    def state(self) -> list[Any]:
        """JSON from which `from_state` restores the cell exactly."""
        custom = {field: [m.state() for m in moments] for field, moments in self.reported.items()}
        return [self.games, self.wins, self.losses, custom.pop("payoff"), custom]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> PayoffCell:
        """Restore a cell."""
        games, wins, losses, payoffs, custom = state
        cell = cls(len(wins))
        cell.games, cell.wins, cell.losses = games, list(wins), list(losses)
        cell.reported = {
            field: [Moments.from_state(games, row) for row in rows]
            for field, rows in {"payoff": payoffs, **custom}.items()
        }
        return cell
