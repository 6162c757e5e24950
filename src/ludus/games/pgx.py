"""pgx's games as ludus games: stepped on the host through jitted functions, or on the device through `PgxGame.env`.

Invariant: seat 0 moves first. pgx gives the first move to a random player; here the players are numbered by seats in
the order of play, so that a seat always has the same role (colour) and seats can be balanced. Chance comes from the
seed: the key of ply `n` is the seed's key folded with `n`. Add a game in `pgx_rules`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import jax

from ludus.errors import ConfigError
from ludus.games.pgx_position import PgxPosition
from ludus.games.pgx_programs import compile_programs, make_env, seat_order
from ludus.games.pgx_rules import REFUSED, RULES, PgxRules
from ludus.games.protocol import GameSpec
from ludus.games.twins import TWINS, Twin


class PgxGame:
    """A game of pgx, by its name: `connect_four`."""

    def __init__(self, name: str) -> None:
        if name in REFUSED:
            raise ConfigError(f"pgx:{name}: {REFUSED[name]}")
        if name not in RULES:
            nearest = get_close_matches(name, RULES, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(f'pgx:{near}' for near in nearest)}?" if nearest else ""
            raise ConfigError(f"pgx:{name}: pgx has no game {name!r}{hint}")
        self._name = name
        self._spec = _describe(name, RULES[name])

    @property
    def spec(self) -> GameSpec:
        """What the game is."""
        return self._spec

    @property
    def env(self) -> Any:
        """The `pgx.Env`, for runners that stay on the device. Its players are not seats: see `seat_order`."""
        return make_env(self._name)

    def seat_order(self, state: Any) -> jax.Array:
        """The pgx players of a fresh state by seat, `[P]`; can be jitted and mapped."""
        return seat_order(state, self._spec.players)

    @property
    def twin(self) -> Twin | None:
        """The same game in OpenSpiel, if it is there."""
        return TWINS.get(self._name)

    def start(self, seed: int) -> PgxPosition:
        """Begin a game; the seed decides all chance."""
        return PgxPosition(compile_programs(self._name), self._spec, self.twin, seed)


def _describe(name: str, rules: PgxRules) -> GameSpec:
    return GameSpec(
        key=f"pgx:{name}",
        players=rules.players,
        actions=rules.actions,
        observation_shape=rules.observation_shape,
        max_length=rules.max_length,
        has_chance=rules.has_chance,
        is_zero_sum=rules.is_zero_sum,
        has_perfect_information=rules.has_perfect_information,
        rewards_every_move=rules.rewards_every_move,
        min_return=rules.min_return,
        max_return=rules.max_return,
        layout="channels_last",
        is_searchable=name in TWINS,
    )
