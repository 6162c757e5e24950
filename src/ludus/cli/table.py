"""A game between a person and a policy: the position, and what the policy decides."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from ludus.games import make_game
from ludus.policies import PolicyStore
from ludus.records import PolicyRef, derive_seed
from ludus.records.uniforms import uniforms
from ludus.runtime import limit_threads
from ludus.storage.run_directory import RunDirectory


class Table:
    """One game with a policy on every seat but the person's."""

    def __init__(self, run: RunDirectory, game_key: str, ref: PolicyRef, *, seed: int, greedy: bool) -> None:
        limit_threads(1, os.environ)
        from ludus.explore.actors import NetworkActors

        self._actors = NetworkActors(PolicyStore(run.policies))
        self._game = make_game(game_key)
        self._ref = ref
        self._seed = np.uint64(derive_seed(seed, "act"))
        self._greedy = greedy
        self._ply = 0
        self._memories: dict[int, NDArray[np.float32]] = {}
        self.position = self._game.start(derive_seed(seed, "game"))

    @property
    def players(self) -> int:
        """Seats of the game."""
        return self._game.spec.players

    @property
    def is_cooperative(self) -> bool:
        """Whether all seats play together."""
        return self._game.spec.is_cooperative

    def decide(self, seat: int) -> int:
        """What the policy plays in this seat."""
        spec = self._game.spec
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
