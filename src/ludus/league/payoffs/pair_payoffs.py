"""What members of the pool got against each other: counts and mean return by game, ordered pair and seat.

Invariant: every pair of seats of a match is counted once from each side, so `(a, b)` and `(b, a)` always agree. Bounded
by the pool: forgetting a member forgets its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

Key = tuple[str, str, str, int]
"""Game, member, opponent, seat of the member."""
TIE_DIGITS = 6
"""Returns that agree to this many decimals are a draw: they differ by rounding only."""


def mean_returns(seats: Sequence[str], returns: Sequence[float]) -> dict[str, float]:
    """Mean return of each distinct member, in the order of first seat.

    A member that holds several seats counts as one player: it is never compared with itself.
    """
    totals: dict[str, list[float]] = {}
    for member, value in zip(seats, returns, strict=True):
        totals.setdefault(member, []).append(value)
    return {member: sum(values) / len(values) for member, values in totals.items()}


def points(returns: Sequence[float]) -> list[float]:
    """Of each player: 1 for the only best return, 1/2 for a shared one, 0 for any other."""
    places = ranks(returns)
    best = min(places)
    most = 0.5 if places.count(best) > 1 else 1.0
    return [most if place == best else 0.0 for place in places]


def ranks(returns: Sequence[float]) -> list[float]:
    """Rank of each player by return: lower is better, equal returns share a rank."""
    return [-round(value, TIE_DIGITS) for value in returns]


@dataclass(slots=True)
class Cell:
    """Games of one member against another, from the first one's side. Mutable; owned by its `Payoffs`."""

    games: int = 0
    wins: int = 0
    draws: int = 0
    losses: int = 0
    total_return: float = 0.0

    def add(self, mine: float, theirs: float) -> None:
        """Count one game."""
        self.games += 1
        self.total_return += mine
        margin = round(mine - theirs, TIE_DIGITS)
        if margin > 0:
            self.wins += 1
        elif margin < 0:
            self.losses += 1
        else:
            self.draws += 1

    def merge(self, other: Cell) -> None:
        """Count all games of another cell too."""
        self.games += other.games
        self.wins += other.wins
        self.draws += other.draws
        self.losses += other.losses
        self.total_return += other.total_return

    @property
    def mean_return(self) -> float | None:
        """Mean return of the first member; None without games."""
        return self.total_return / self.games if self.games else None

    @property
    def score(self) -> float | None:
        """Share of points, a draw counting half; None without games."""
        return (self.wins + 0.5 * self.draws) / self.games if self.games else None


class Payoffs:
    """All cells of a pool, by game, ordered pair and seat."""

    def __init__(self) -> None:
        self._cells: dict[Key, Cell] = {}

    def add(self, game: str, seats: Sequence[str], returns: Sequence[float]) -> None:
        """Count one match; `seats` names the member in each seat."""
        for mine, theirs in permutations(range(len(seats)), 2):
            key = game, seats[mine], seats[theirs], mine
            cell = self._cells.get(key)
            if cell is None:
                cell = self._cells[key] = Cell()
            cell.add(returns[mine], returns[theirs])

    def by_pair(self) -> dict[tuple[str, str], Cell]:
        """Copies of the counts of all pairs that met, over all games and seats."""
        totals: dict[tuple[str, str], Cell] = {}
        for (_, member, opponent, _), cell in self._cells.items():
            totals.setdefault((member, opponent), Cell()).merge(cell)
        return totals

    def forget(self, member: str) -> None:
        """Drop every cell of a member."""
        self._cells = {key: cell for key, cell in self._cells.items() if member not in key[1:3]}

    def state(self) -> list[list[Any]]:
        """JSON rows from which `load_state` restores all cells."""
        return [[*key, c.games, c.wins, c.draws, c.losses, c.total_return] for key, c in self._cells.items()]

    def load_state(self, rows: Sequence[Sequence[Any]]) -> None:
        """Replace all cells."""
        self._cells = {(row[0], row[1], row[2], row[3]): Cell(*row[4:]) for row in rows}
