"""A game between a person and a policy: the position, and what a network or a table of probabilities decides."""

from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import ConfigError
from ludus.games import make_game
from ludus.policies import PolicyStore, TabularShape
from ludus.policies.shapes import LISTING
from ludus.records import PolicyRef, derive_seed
from ludus.records.uniforms import uniforms
from ludus.runtime import limit_threads
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.games.protocol import Position

Lookup = dict[str, tuple[list[int], list[float]]]


class Table:
    """One game with a network on every seat but the person's."""

    def __init__(self, run: RunDirectory, game_key: str, ref: PolicyRef, *, seed: int, greedy: bool) -> None:
        limit_threads(1, os.environ)
        from ludus.explore.actors import NetworkActors

        self._actors = NetworkActors(PolicyStore(run.policies))
        self._ref = ref
        self._seed = np.uint64(derive_seed(seed, "act"))
        self._greedy = greedy
        self._ply = 0
        self._memories: dict[int, NDArray[np.float32]] = {}
        game = make_game(game_key)
        self.spec = game.spec
        self.position = game.start(derive_seed(seed, "game"))

    def decide(self, seat: int) -> int:
        """What the policy plays in this seat."""
        spec = self.spec
        observation = np.zeros((1, *spec.observation_shape), np.float32)
        self.position.observe(seat, observation[0])
        legal = np.zeros((1, spec.actions), np.bool_)
        legal[0, self.position.legal(seat)] = True
        uniform = uniforms(np.array([self._seed]), np.array([self._ply], np.uint64), np.array([seat], np.uint64))
        self._ply += 1
        memory, greedy = self._memories.get(seat), np.array([self._greedy])
        decided = self._actors.act(self._ref, observation, legal, uniform, greedy, memory=memory)
        self._memories[seat] = decided.memory
        return int(decided.actions[0])


class TabularTable:
    """One game with a table on every seat but the person's. It always samples: its mixture is its strategy."""

    def __init__(self, run: RunDirectory, game_key: str, ref: PolicyRef, *, seed: int) -> None:
        game = make_game(game_key)
        self.spec = game.spec
        if self.spec.is_simultaneous:
            raise ConfigError(f"{game_key}: seats move at the same time, and its tables are of the game in turns")
        self._seats = read_seats(PolicyStore(run.policies), ref)
        self._random = Random(derive_seed(seed, "act"))
        self.position = game.start(derive_seed(seed, "game"))

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
