"""Opponents on the device: which part of the games is played against whom.

Each opponent kind of `league.opponents` other than `mirror` gets a lane: a block of games in which one seat is held by
one opponent for a while. It changes when the pool does; the lane's games then begin anew, so no game ever changes
opponents midway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from numpy.typing import NDArray

from ludus.config.judge import OpponentConfig
from ludus.errors import ConfigError
from ludus.league import make_sampler
from ludus.league.opponents import normalise
from ludus.league.pool import Pool
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, derive_seed

UNIFORM_PLAYER = "random"


class Lanes:
    """The lanes of a run: sizes are fixed, opponents change."""

    def __init__(self, choices: tuple[OpponentConfig, ...], games: int, players: int) -> None:
        total = sum(choice.weight for choice in choices)
        self._choices = [choice for choice in choices if choice.kind != "mirror"]
        if self._choices and players != 2:
            raise ConfigError(
                "league.opponents: the fused topology has opponents other than mirror for two players only"
            )
        for choice in self._choices:
            unplayable = [name for name in choice.players if name != UNIFORM_PLAYER]
            if unplayable:
                raise ConfigError(
                    f"league.opponents: {', '.join(unplayable)} cannot play on the device; use topology: split"
                )
        # Lanes are even, so that both seats are held equally often.
        self.sizes = tuple(max(2, round(games * choice.weight / total / 2) * 2) for choice in self._choices)
        if sum(self.sizes) > games:
            raise ConfigError(
                f"explore.games_in_flight: {games} games are too few for {len(self.sizes)} kinds of opponents"
            )
        self.refs: list[PolicyRef] = [PolicyRef(name=PolicyName(UNIFORM_PLAYER))] * len(self.sizes)
        self.changed = [True] * len(self.sizes)

    def draw(self, pool: Pool, seed: int, number: int) -> None:
        """Choose each lane's opponent anew. While there is no candidate, the uniform player fills in."""
        for lane, choice in enumerate(self._choices):
            candidates = [
                (ref, weight)
                for ref, weight in make_sampler(choice).weigh(pool)
                if ref.name in (UNIFORM_PLAYER, pool.learner.ref.name)
            ]
            chosen = PolicyRef(name=PolicyName(UNIFORM_PLAYER))
            draw = derive_seed(seed, "lane", lane, number) / 2**63
            for ref, probability in normalise(candidates):
                chosen = ref
                draw -= probability
                if draw < 0:
                    break
            self.changed[lane] = self.changed[lane] or chosen != self.refs[lane]
            self.refs[lane] = chosen

    def weights(self, store: PolicyStore, learner: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """Weights by lane; the uniform player is a network of zeros."""
        return tuple(self._weights(ref, store, learner) for ref in self.refs)

    @staticmethod
    def _weights(ref: PolicyRef, store: PolicyStore, learner: Mapping[str, Any]) -> Mapping[str, Any]:
        if ref.name == UNIFORM_PLAYER:
            return {name: jnp.zeros_like(tensor) for name, tensor in learner.items()}
        loaded: Mapping[str, NDArray[Any]] = store.load(ref).weights
        return {name: jnp.asarray(tensor) for name, tensor in loaded.items()}

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"refs": [str(ref) for ref in self.refs], "changed": list(self.changed)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint; games in flight go on against the opponents they had."""
        self.refs = [PolicyRef.parse(text) for text in state["refs"]]
        self.changed = [bool(flag) for flag in state["changed"]]
