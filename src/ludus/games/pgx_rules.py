"""What pgx does not say about its games: how long they last, what they pay, what is hidden. Light to import.

Invariant: this table equals what pgx's environments show (tests play them), so games can be listed without loading
JAX. Add a game with one line in `RULES`; one that cannot be used goes to `REFUSED` with its reason.
"""

from __future__ import annotations

from typing import Any

from ludus.games.protocol import GameSpec
from ludus.games.twins import TWINS

ARCADE_LIMIT = 10_000
"""MinAtar games have no bound of their own; runners cut them there."""


def _rules(
    name: str, actions: int, observation_shape: tuple[int, ...], max_length: int, players: int = 2, **facts: Any
) -> GameSpec:
    return GameSpec(
        key=f"pgx:{name}",
        players=players,
        actions=actions,
        observation_shape=observation_shape,
        max_length=max_length,
        is_zero_sum=players > 1,
        layout="channels_last",
        is_searchable=name in TWINS,
        **facts,
    )


_CHANCE: dict[str, Any] = {"has_chance": True}
_CARDS: dict[str, Any] = {"has_chance": True, "has_perfect_information": False}
_ARCADE: dict[str, Any] = {**_CARDS, "players": 1, "rewards_every_move": True, "min_return": 0.0}
_MOST = 10.0 * ARCADE_LIMIT

RULES = {
    spec.key.removeprefix("pgx:"): spec
    for spec in (
        # The sum of the tiles grows by at least 2 with each move and cannot exceed 2^18.
        _rules("2048", 4, (4, 4, 31), 131_072, 1, **_CHANCE, rewards_every_move=True, min_return=0.0, max_return=4e6),
        _rules("animal_shogi", 132, (4, 3, 194), 256),
        # Checkers that are hit start again, so there is no strict bound; random games take about 200 plies.
        _rules("backgammon", 156, (34,), 10_000, **_CHANCE, min_return=-3.0, max_return=3.0),
        _rules("chess", 4672, (8, 8, 119), 512),
        _rules("connect_four", 7, (6, 7, 2), 42),
        _rules("gardner_chess", 1225, (5, 5, 115), 256),
        _rules("go_9x9", 82, (9, 9, 17), 162),
        _rules("go_19x19", 362, (19, 19, 17), 722),
        _rules("hex", 122, (11, 11, 4), 122),
        _rules("kuhn_poker", 2, (7,), 3, **_CARDS, min_return=-2.0, max_return=2.0),
        _rules("leduc_holdem", 3, (34,), 8, **_CARDS, min_return=-13.0, max_return=13.0),
        _rules("minatar-asterix", 5, (10, 10, 4), ARCADE_LIMIT, **_ARCADE, max_return=_MOST),
        _rules("minatar-breakout", 3, (10, 10, 4), ARCADE_LIMIT, **_ARCADE, max_return=_MOST),
        _rules("minatar-freeway", 3, (10, 10, 7), 2_501, **_ARCADE, max_return=2_501.0),
        _rules("minatar-seaquest", 6, (10, 10, 10), ARCADE_LIMIT, **_ARCADE, max_return=_MOST),
        _rules("minatar-space_invaders", 4, (10, 10, 6), ARCADE_LIMIT, **_ARCADE, max_return=_MOST),
        _rules("othello", 65, (8, 8, 2), 128),
        _rules("shogi", 2187, (9, 9, 119), 512),
        # A discarded tile that completes two hands is paid for twice.
        _rules("sparrow_mahjong", 11, (11, 15), 30, 3, **_CARDS, min_return=-2.0),
        _rules("tic_tac_toe", 9, (3, 3, 2), 9),
    )
}

ACTION_NAMES = {
    "2048": ("left", "up", "right", "down"),
    "minatar-asterix": ("stay", "left", "up", "right", "down"),
    "minatar-breakout": ("stay", "left", "right"),
    "minatar-freeway": ("stay", "up", "down"),
    "minatar-seaquest": ("stay", "left", "up", "right", "down", "fire"),
    "minatar-space_invaders": ("stay", "left", "right", "fire"),
}
"""How people call the actions, where numbers would not do."""

REFUSED = {
    "bridge_bidding": "needs a table of double-dummy results that pgx downloads",
    "mahjong": "unfinished in pgx",
}
