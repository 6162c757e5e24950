"""A game between a person and a policy: the position, and what a network or a table of probabilities decides."""

from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ludus.cli.arguments import check_search
from ludus.errors import ConfigError
from ludus.explore.runners.search_decisions import find_search
from ludus.games import make_game
from ludus.policies import PolicyStore, TabularShape
from ludus.policies.shapes import LISTING
from ludus.records import PolicyRef, derive_seed
from ludus.records.uniforms import uniforms
from ludus.runtime import limit_threads
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.config import RunConfig
    from ludus.games.protocol import Position

Lookup = dict[str, tuple[list[int], list[float]]]


class Table:
    """One game with a network on every seat but the person's."""

    def __init__(
        self,
        run: RunDirectory,
        config: RunConfig,
        game_key: str,
        ref: PolicyRef,
        *,
        seed: int,
        greedy: bool,
        nodes: int,
    ) -> None:
        limit_threads(1, os.environ)
        from ludus.explore.actors import NetworkActors

        store, game = PolicyStore(run.policies), make_game(game_key)
        check_search(game, nodes)
        search = find_search(game, store, config)
        self._search = search if search is not None and search.decides(nodes) else None
        self._nodes = nodes
        self._actors = NetworkActors(store)
        self._ref = ref
        self._seed = np.uint64(derive_seed(seed, "act"))
        self._greedy = greedy
        self._ply = 0
        self._memories: dict[int, NDArray[np.float32]] = {}
        self.spec = game.spec
        self.position = game.start(derive_seed(seed, "game"))

    def decide(self, seat: int) -> int:
        """What the policy plays in this seat."""
        uniform = uniforms(np.array([self._seed]), np.array([self._ply], np.uint64), np.array([seat], np.uint64))
        self._ply += 1
        memory, greedy = self._memories.get(seat), np.array([self._greedy])
        if self._search is not None:
            return self._search.choose(self._ref, [self.position], nodes=self._nodes, uniform=uniform, greedy=greedy)[0]
        observation, legal = self._look(seat)
        decided = self._actors.act(self._ref, observation, legal, uniform, greedy, memory=memory)
        self._memories[seat] = decided.memory
        return int(decided.actions[0])

    def think(self, seat: int) -> tuple[dict[int, float], float | None]:
        """The policy's probabilities in this seat, and the return that it expects; it remembers nothing of it.

        Each legal action is asked for beside the likeliest alone, which tells the odds between the two.
        """
        if self._search is not None:
            return self._search.think(self._ref, self.position, nodes=self._nodes)
        observation, legal = self._look(seat)
        actions, memory, one = self.position.legal(seat), self._memories.get(seat), np.zeros(1, np.float32)
        decided = self._actors.act(self._ref, observation, legal, one, one == 0, memory=memory)
        best, count = int(decided.actions[0]), len(actions)
        pairs = np.zeros((count, legal.shape[1]), np.bool_)
        pairs[:, best] = pairs[np.arange(count), actions] = True
        many, remembered = np.zeros(count, np.float32), None if memory is None else np.repeat(memory, count, axis=0)
        asked = self._actors.act(
            self._ref, np.repeat(observation, count, axis=0), pairs, many, many == 0, memory=remembered
        )
        first = np.exp(asked.logps.astype(np.float64))
        odds = np.where(np.array(actions) == best, 1.0, (1.0 - first) / first)
        has_value = not self._actors.needs(self._ref).state
        chances = dict(zip(map(int, actions), (odds / odds.sum()).tolist(), strict=True))
        return chances, float(decided.values[0]) if has_value else None

    def _look(self, seat: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        observation = np.zeros((1, *self.spec.observation_shape), np.float32)
        self.position.observe(seat, observation[0])
        legal = np.zeros((1, self.spec.actions), np.bool_)
        legal[0, self.position.legal(seat)] = True
        return observation, legal


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

    def think(self, seat: int) -> tuple[dict[int, float], float | None]:
        """What the table has for this seat; it has no values."""
        return dict(zip(*_row(self._seats[seat], self.position, seat), strict=True)), None


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
