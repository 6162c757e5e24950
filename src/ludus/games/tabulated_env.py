"""Plays a tabulated game on the device: an environment like pgx's, in which a step is a few look-ups.

Invariant: a state is a pure function of its node, so a game in flight is saved and restored by its arrays, as pgx's
are. Players are seats. An action that is not legal leads anywhere: who plays here masks.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ludus.games.protocol import GameSpec
from ludus.games.tabulated import Tabulated


class TabulatedState(NamedTuple):
    """One game in progress, with the names that pgx's states have."""

    node: jax.Array
    current_player: jax.Array
    observation: jax.Array
    """`[*S]`, as the current player sees it."""
    legal_action_mask: jax.Array
    """`[A]`"""
    rewards: jax.Array
    """`[P]`: of the last step."""
    terminated: jax.Array
    truncated: jax.Array


class TabulatedEnv:
    """The environment of one game. Can be jitted and mapped; the tables become constants of the program."""

    def __init__(self, tree: Tabulated) -> None:
        self.num_players = tree.players
        self._tree = tree
        self._has_chance = bool((tree.siblings > 1).any())

    def init(self, key: jax.Array) -> TabulatedState:
        """Begin a game; the key is consumed."""
        return self._at(self._draw(jnp.int32(0), key))

    def step(self, state: TabulatedState, action: jax.Array, key: jax.Array) -> TabulatedState:
        """Play a legal action of the current player, and the chance that follows; the key is consumed."""
        return self._at(self._draw(jnp.asarray(self._tree.first)[state.node, action], key))

    def _draw(self, first: jax.Array, key: jax.Array) -> jax.Array:
        """One of the siblings that begin with a node, by their probabilities."""
        if not self._has_chance:
            return first
        even, stay = jax.random.uniform(key, (2,))
        width = jnp.asarray(self._tree.siblings)[first]
        node = first + jnp.minimum((even * width).astype(jnp.int32), width - 1)
        stays = stay < jnp.asarray(self._tree.accept)[node]
        return jnp.where(stays, node, jnp.asarray(self._tree.alias)[node])

    def _at(self, node: jax.Array) -> TabulatedState:
        tree = self._tree
        view = jnp.asarray(tree.view)[node]
        return TabulatedState(
            node=node,
            current_player=jnp.asarray(tree.player)[node],
            observation=jnp.asarray(tree.observations)[view],
            legal_action_mask=jnp.asarray(tree.legal)[view],
            rewards=jnp.asarray(tree.rewards)[node],
            terminated=jnp.asarray(tree.is_end)[node],
            truncated=jnp.zeros((), jnp.bool_),
        )


class TabulatedGame:
    """A tabulated game as a `DeviceGame`."""

    def __init__(self, spec: GameSpec, tree: Tabulated) -> None:
        self.spec = spec
        self.env = TabulatedEnv(tree)

    def seat_order(self, state: TabulatedState) -> jax.Array:
        """Players are seats."""
        return jnp.arange(self.spec.players, dtype=jnp.int32)
