"""How learners do of late against others: shares of points in which old games count less and less.

A learner changes while its results stay, so `age` is called for whoever has learnt. Invariant: one imagined draw is
always there, so that every score is finite and nobody is certain after three games.
"""

from __future__ import annotations

from typing import Any


class ScoreBook:
    """Points by pair. Mutable; belongs to one thread."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, str], list[float]] = {}

    def add(self, player: str, opponent: str, points: float) -> None:
        """Count a game: 1 for a win, 1/2 for a draw, 0 for a defeat; for both sides."""
        for pair, won in (((player, opponent), points), ((opponent, player), 1.0 - points)):
            entry = self._points.setdefault(pair, [0.0, 0.0])
            entry[0] += 1.0
            entry[1] += won

    def score(self, player: str, opponent: str) -> float:
        """The player's share of points, with one imagined draw; 1/2 where they never met."""
        games, points = self._points.get((player, opponent), (0.0, 0.0))
        return (points + 0.5) / (games + 1.0)

    def games(self, player: str, opponent: str) -> float:
        """How many games the score rests on, old ones counting less."""
        return self._points.get((player, opponent), (0.0, 0.0))[0]

    def age(self, player: str, keep: float) -> None:
        """The player has changed: its games count `keep` times as much."""
        for pair, entry in self._points.items():
            if player in pair:
                entry[:] = [keep * value for value in entry]

    def forget(self, player: str) -> None:
        """The player begins anew."""
        self._points = {pair: entry for pair, entry in self._points.items() if player not in pair}

    def copy(self, player: str, name: str) -> None:
        """Give somebody the results of a player: what it was when it was frozen."""
        for (one, other), entry in list(self._points.items()):
            if player in (one, other):
                pair = (name if one == player else one, name if other == player else other)
                self._points[pair] = list(entry)

    def state(self) -> list[list[Any]]:
        """JSON from which `load_state` restores the book."""
        return [[player, opponent, *entry] for (player, opponent), entry in self._points.items()]

    def load_state(self, state: Any) -> None:
        """Replace everything by what `state` returned."""
        self._points = {(player, opponent): [games, points] for player, opponent, games, points in state}
