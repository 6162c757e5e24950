"""The jitted functions through which the host steps a pgx game, compiled once per game and process."""

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

    begin: Callable[[KeyWords], tuple[Any, jax.Array]]
    """A new game: its state, and its players by seat."""
    step: Callable[[Any, int, KeyWords], Any]
    """The state after an action."""
    observe: Callable[[Any, int], jax.Array]
    """What a pgx player sees, whether it is to act or not."""


@cache
def make_env(name: str) -> Any:
    """The `pgx.Env` of that name."""
    return pgx.make(name)


@cache
def compile_programs(name: str) -> Programs:
    """The jitted functions of a game; compilation happens at their first call."""
    env, players = make_env(name), RULES[name].players

    def begin(key: jax.Array) -> tuple[Any, jax.Array]:
        state = env.init(jax.random.fold_in(jax.random.wrap_key_data(key), 0))
        return state, seat_order(state, players)

    def step(state: Any, action: jax.Array, key: jax.Array) -> Any:
        ply = jax.random.fold_in(jax.random.wrap_key_data(key), state._step_count + 1)
        return env.step(state, action, ply)

    def observe(state: Any, player: jax.Array) -> jax.Array:
        seen: jax.Array = env._observe(state, player)
        return seen.astype(jnp.float32)

    return Programs(begin=jax.jit(begin), step=jax.jit(step), observe=jax.jit(observe))


def seat_order(state: Any, players: int) -> jax.Array:
    """The pgx players of a fresh state by seat, `[P]`: who moves first, second, ... in the first round."""
    if hasattr(state, "_shuffled_players"):
        return cast(jax.Array, state._shuffled_players)
    return cast(jax.Array, (state.current_player + jnp.arange(players)) % players)
