"""A small game's whole tree as arrays, for any number of seats, and the environment in which the device plays it.

Nodes are decisions and ends; chance is folded into the way from one to the next. The nodes that can follow an action
are *siblings*: they are adjacent, and one of them is drawn by the alias method (Walker 1977): draw a sibling evenly,
keep it with probability `accept`, else go to its `alias`. The first siblings, from node 0 on, are those that a game
begins with.

Invariant: every node has exactly one way from the beginning, so a node stands for a history and its rewards are those
of the way into it. A state of `TabulatedEnv` is a pure function of its node, so a game in flight is saved and restored
by its arrays, as pgx's are. Players are seats. An action that is not legal leads anywhere: who plays here masks.
`tabulating.py` makes the arrays from OpenSpiel's games.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.games.protocol import GameSpec

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabulated:
    """The tree of a game with P seats, A actions and observations of shape S."""

    game: str
    """As OpenSpiel names it."""
    player: Indices
    """`[nodes]`: the seat that decides; 0 at ends."""
    is_end: Flags
    """`[nodes]`"""
    first: Indices
    """`[nodes, A]`: the first of the siblings that follow an action; 0 where it is not legal."""
    siblings: Indices
    """`[nodes]`: how many nodes can come about where this one did, itself included."""
    chance: NDArray[np.float64]
    """`[nodes]`: the probability of this one among its siblings."""
    accept: Floats
    """`[nodes]`: the probability to stay where one was drawn evenly."""
    alias: Indices
    """`[nodes]`: where to go else."""
    rewards: Floats
    """`[nodes, P]`: what each seat gets on the way here from the decision before. What is paid before the first
    decision comes with that decision's reward."""
    view: Indices
    """`[nodes]`: the row of `observations` and `legal` that the deciding seat sees; row 0 at ends."""
    observations: Floats
    """`[views, *S]`: different from each other in what is seen or what is legal. Row 0 is blank."""
    legal: Flags
    """`[views, A]`; all of row 0 is true."""
    information_sets: tuple[Mapping[str, int], ...]
    """By seat: what it knows at a decision, as the game says it, and its view there. Empty where the game does not
    say what a seat knows."""
    histories: int
    """Nodes of the tree that it was made from, chance included."""

    @property
    def players(self) -> int:
        """Seats of the game."""
        return int(self.rewards.shape[1])


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
