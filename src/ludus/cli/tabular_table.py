"""A game between a person and a table of probabilities: what `ludus play` needs of a run that computed a population."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from ludus.errors import ConfigError
from ludus.games import make_game
from ludus.policies import PolicyStore, TabularShape
from ludus.policies.tabular_shape import LISTING
from ludus.records import PolicyRef, derive_seed
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.games.protocol import Position

Lookup = dict[str, tuple[list[int], list[float]]]


class TabularTable:
    """One game with a table on every seat but the person's. It always samples: its mixture is its strategy."""

    is_cooperative = False
    """Tables are of games that somebody loses."""

    def __init__(self, run: RunDirectory, game_key: str, ref: PolicyRef, *, seed: int) -> None:
        store = PolicyStore(run.policies)
        self._game = make_game(game_key)
        if self._game.spec.is_simultaneous:
            raise ConfigError(f"{game_key}: seats move at the same time, and its tables are of the game in turns")
        self._seats = read_seats(store, ref)
        self._random = Random(derive_seed(seed, "act"))
        self.position = self._game.start(derive_seed(seed, "game"))

    @property
    def players(self) -> int:
        """Seats of the game."""
        return self._game.spec.players

    def decide(self, seat: int) -> int:
        """What the table plays in this seat."""
        actions, probabilities = _row(self._seats[seat], self.position, seat)
        return self._random.choices(actions, probabilities)[0]


class TabularPlayer:
    """A table of probabilities as a player of any seat."""

    def __init__(self, store: PolicyStore, ref: PolicyRef) -> None:
        self._seats = read_seats(store, ref)

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Draw from what the table has for what the seat knows."""
        actions, probabilities = _row(self._seats[seat], position, seat)
        bounds = np.cumsum(probabilities)
        return actions[int(np.searchsorted(bounds[:-1], rng.random() * bounds[-1], side="right"))]


def _row(table: Lookup, position: Any, seat: int) -> tuple[list[int], list[float]]:
    """What the table has for what the seat knows; the games of tables are searchable."""
    return table[position.open_spiel_state().information_state_string(seat)]


def read_seats(store: PolicyStore, ref: PolicyRef) -> list[Lookup]:
    """For each seat: actions and probabilities by what it knows."""
    weights = store.load(ref, TabularShape).weights
    listing = json.loads((store.path(ref) / LISTING).read_text())
    return [_lookup(rows, weights[f"seat_{seat}/policy"].tolist()) for seat, rows in enumerate(listing)]


def _lookup(rows: list[dict[str, Any]], policy: list[float]) -> Lookup:
    """Actions and probabilities by what the seat knows; sequence 0 is no decision."""
    table: Lookup = {}
    start = 1
    for row in rows:
        end = start + len(row["actions"])
        table[row["knows"]] = (row["actions"], policy[start:end])
        start = end
    return table
