"""The jitted functions through which the host steps a pgx game, compiled once per game and process.

A *view* is what the host needs of a state, packed into one float32 vector so that it takes one transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import pgx
from numpy.typing import NDArray

from ludus.games.pgx_rules import RULES

KeyWords = NDArray[np.uint32]
"""The two words of a threefry key, `[2]`."""


class Programs(NamedTuple):
    """The functions of one game."""

    begin: Callable[[KeyWords], tuple[Any, jax.Array, jax.Array]]
    """State, view and players by seat of a new game."""
    step: Callable[[Any, int, KeyWords], tuple[Any, jax.Array]]
    """State and view after an action."""
    observe: Callable[[Any, int], jax.Array]
    """What a pgx player sees, whether it is to act or not."""


class View(NamedTuple):
    """An unpacked view."""

    player: int
    is_over: bool
    rewards: NDArray[np.float32]
    """`[P]`, by pgx player."""
    legal: NDArray[np.float32]
    """`[A]`"""
    observation: NDArray[np.float32]
    """What the player to move sees, flat."""


@cache
def make_env(name: str) -> Any:
    """The `pgx.Env` of that name."""
    return pgx.make(name)


@cache
def compile_programs(name: str) -> Programs:
    """The jitted functions of a game; compilation happens at their first call."""
    env, players = make_env(name), RULES[name].players

    def begin(key: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        state = env.init(jax.random.fold_in(jax.random.wrap_key_data(key), 0))
        return state, _pack(state), seat_order(state, players)

    def step(state: Any, action: jax.Array, key: jax.Array) -> tuple[Any, jax.Array]:
        ply = jax.random.fold_in(jax.random.wrap_key_data(key), state._step_count + 1)
        after = env.step(state, action, ply)
        return after, _pack(after)

    def observe(state: Any, player: jax.Array) -> jax.Array:
        seen: jax.Array = env._observe(state, player)
        return seen.astype(jnp.float32)

    return Programs(begin=jax.jit(begin), step=jax.jit(step), observe=jax.jit(observe))


def seat_order(state: Any, players: int) -> jax.Array:
    """The pgx players of a fresh state by seat, `[P]`: who moves first, second, ... in the first round."""
    if hasattr(state, "_shuffled_players"):
        return cast(jax.Array, state._shuffled_players)
    return cast(jax.Array, (state.current_player + jnp.arange(players)) % players)


def _pack(state: Any) -> jax.Array:
    over = state.terminated | state.truncated
    parts = (state.current_player, over, state.rewards, state.legal_action_mask, state.observation)
    return jnp.concatenate([jnp.ravel(part).astype(jnp.float32) for part in parts])


def unpack(packed: jax.Array, players: int, actions: int) -> View:
    """Read a view on the host."""
    flat = np.asarray(packed)
    legal, seen = 2 + players, 2 + players + actions
    return View(int(flat[0]), bool(flat[1]), flat[2:legal], flat[legal:seen], flat[seen:])
