"""What games came to: counts by pair of members, for a pool, and exact moments by profile, for an empirical game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from fractions import Fraction
from itertools import permutations
from math import nan, sqrt
from typing import Any

Key = tuple[str, str, str, int]
"""Game, member, opponent, seat of the member."""
TIE_DIGITS = 6
"""Returns that agree to this many decimals are a draw: they differ by rounding only."""
FIELDS = ("payoff", "score", "win", "lose")
"""What is known of every game. Score: 1 for a win, 1/2 for a draw, 0 for a defeat. A player wins with the only best
return, draws with a shared one, and loses with any other."""

Z95 = 1.959963984540054


def wilson_interval(score: float, games: int) -> tuple[float, float]:
    """The 95 % interval of a score (Wilson's): never empty, also after nothing but wins. Draws make it too wide."""
    centre = (score + Z95**2 / (2 * games)) / (1 + Z95**2 / games)
    half = Z95 / (1 + Z95**2 / games) * sqrt(score * (1 - score) / games + Z95**2 / (4 * games * games))
    return max(centre - half, 0.0), min(centre + half, 1.0)


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
    """All cells of a pool: counts and mean return by game, ordered pair and seat.

    Every pair of seats of a match is counted once from each side, so `(a, b)` and `(b, a)` always agree. Bounded by the
    pool: forgetting a member forgets its cells.
    """

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


@dataclass(slots=True)
class Moments:
    """Count, sum and sum of squares of numbers, as exact fractions. Mutable; owned by its cell.

    Nothing is rounded before it is read, so numbers and batches of numbers may arrive in any order, be merged in any
    order and go through JSON, and give the same mean and spread to the last bit.
    """

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
    """All games of one profile of policies: how many, who won, and the exact moments of what each player got.

    `wins[k] + losses[k] <= games` for every player k, and the rest are draws. Mutable; owned by its empirical game.
    """

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
