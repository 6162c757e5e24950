"""Positions that OpenSpiel's own players can search: OpenSpiel's games, and games that have a twin there."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ludus.games.protocol import Position


@runtime_checkable
class SearchablePosition(Position, Protocol):
    """A position that OpenSpiel can look into."""

    def open_spiel_state(self) -> Any:
        """A copy of the `pyspiel.State`; its players are the seats."""
        ...

    def from_open_spiel(self, action: int) -> int:
        """The position's own number of one of OpenSpiel's actions."""
        ...
