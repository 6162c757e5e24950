"""pgx's games as ludus games: stepped on the host through jitted functions, or on the device through `PgxGame.env`.

Invariants: seat 0 moves first. pgx gives the first move to a random player; here the players are numbered by seats in
the order of play, so that a seat always has the same role (colour) and seats can be balanced. Chance comes from the
seed: the key of ply `n` is the seed's key folded with `n`. pgx is never given an illegal action (it would end the game
with a loss), so a refused move leaves the position as it was. Add a game in `pgx_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import index
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import pgx
from numpy.typing import NDArray

from ludus.errors import ConfigError, EnvError
from ludus.games.pgx_rules import ACTION_NAMES, REFUSED, RULES
from ludus.games.registry import did_you_mean
from ludus.games.render import render_seen
from ludus.games.twins import TWINS, TwinState

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


class PgxGame:
    """A game of pgx, by its name: `connect_four`."""

    def __init__(self, name: str) -> None:
        if name in REFUSED:
            raise ConfigError(f"pgx:{name}: {REFUSED[name]}")
        if name not in RULES:
            raise ConfigError(f"pgx:{name}: pgx has no game {name!r}{did_you_mean(name, RULES, prefix='pgx:')}")
        self._name = name
        self.spec = RULES[name]

    @property
    def env(self) -> Any:
        """The `pgx.Env`, for runners that stay on the device. Its players are not seats: see `seat_order`."""
        return make_env(self._name)

    def seat_order(self, state: Any) -> jax.Array:
        """The pgx players of a fresh state by seat, `[P]`; can be jitted and mapped."""
        return seat_order(state, self.spec.players)

    def start(self, seed: int) -> PgxPosition:
        """Begin a game; the seed decides all chance."""
        return PgxPosition(self._name, seed)


class PgxPosition:
    """One game of pgx in progress. Seats are numbered in the order of play; `_order` holds their pgx players."""

    def __init__(self, name: str, seed: int) -> None:
        self._programs = compile_programs(name)
        self._spec = RULES[name]
        self._twin = TWINS.get(name)
        self._twin_state: TwinState | None = None
        self._actions: list[int] = []
        self._key = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
        self._state, order = self._programs.begin(self._key)
        self._order: list[int] = np.asarray(order).tolist()
        self._totals = np.zeros(self._spec.players)
        self._legal: list[int] | None = None
        self._seat = self._find_seat()

    def acting(self) -> tuple[int, ...]:
        """The seat that must act now; none when over."""
        return () if self._seat is None else (self._seat,)

    def legal(self, seat: int) -> list[int]:
        """Legal actions of the acting seat, ascending."""
        if seat != self._seat:
            raise EnvError(f"{self._spec.key}: seat {seat} is not to act")
        if self._legal is None:
            self._legal = np.flatnonzero(np.asarray(self._state.legal_action_mask)).tolist()
        return self._legal

    def observe(self, seat: int, out: NDArray[np.float32]) -> None:
        """Write what the seat sees into `out`."""
        if seat == self._seat:
            out[...] = np.asarray(self._state.observation)
        else:
            out[...] = np.asarray(self._programs.observe(self._state, self._order[seat]))

    def act(self, actions: Mapping[int, int]) -> None:
        """Play the acting seat's action; chance that follows comes from the seed."""
        action = self._checked(actions)
        self._state = self._programs.step(self._state, action, self._key)
        self._actions.append(action)
        self._totals += np.asarray(self._state.rewards)
        self._legal = None
        self._seat = self._find_seat()

    def returns(self) -> list[float]:
        """Total reward so far, per seat."""
        totals: list[float] = self._totals[self._order].tolist()
        return totals

    def text(self, seat: int | None = None) -> str:
        """Show the position, as the seat may see it."""
        if self._twin is not None:
            state = self._follow()
            return str(state) if seat is None else str(state.observation_string(seat))
        seats = range(self._spec.players) if seat is None else (seat,)
        return "\n\n".join(f"seat {each} sees\n{render_seen(self, self._spec, each)}" for each in seats)

    def action_text(self, seat: int, action: int) -> str:
        """Name a legal action as a person writes it; its number where nobody has named it."""
        if action not in self.legal(seat):
            raise EnvError(f"{self._spec.key}: action {action} is not legal for seat {seat}")
        if names := ACTION_NAMES.get(self._spec.key.removeprefix("pgx:")):
            return names[action]
        if self._twin is None or self._follow().is_terminal():
            return str(action)
        return str(self._follow().action_to_string(seat, self._twin.to_open_spiel(action)))

    def open_spiel_state(self) -> Any:
        """A copy of the twin's `pyspiel.State`, for OpenSpiel's own players."""
        return self._follow().clone()

    def from_open_spiel(self, action: int) -> int:
        """The action that OpenSpiel's player means."""
        return self._twin.from_open_spiel(action) if self._twin else action

    def _find_seat(self) -> int | None:
        # By way of NumPy: `bool` and `int` of a JAX array take several times as long.
        is_over = np.asarray(self._state.terminated) or np.asarray(self._state.truncated)
        return None if is_over else self._order.index(np.asarray(self._state.current_player).item())

    def _checked(self, actions: Mapping[int, int]) -> int:
        if self._seat is None:
            raise EnvError(f"{self._spec.key}: the game is over")
        try:
            action = index(actions[self._seat])
        except (KeyError, TypeError):
            raise EnvError(f"{self._spec.key}: no action for seat {self._seat} in {actions!r}") from None
        if action not in self.legal(self._seat):
            raise EnvError(f"{self._spec.key}: action {action} is not legal for seat {self._seat}")
        if len(actions) != 1:
            raise EnvError(f"{self._spec.key}: only seat {self._seat} acts now, got actions for {sorted(actions)}")
        return action

    def _follow(self) -> Any:
        """The twin's state after the moves so far."""
        if self._twin is None:
            raise EnvError(f"{self._spec.key}: OpenSpiel has no equal game, so its players cannot play it")
        if self._twin_state is None:
            self._twin_state = TwinState(self._twin, self._twin.cards(self._state, self._order))
        self._twin_state.follow(self._actions)
        return self._twin_state.state
