"""What pgx does not say about its games: how long they last, what they pay, what is hidden. Light to import.

Invariant: this table equals what pgx's environments show (tests play them), so games can be listed without loading
JAX. Add a game with one line in `RULES`; one that cannot be used goes to `REFUSED` with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ARCADE_LIMIT = 10_000
"""MinAtar games have no bound of their own; runners cut them there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PgxRules:
    """The constant facts about one pgx game."""

    players: int = 2
    actions: int
    observation_shape: tuple[int, ...]
    max_length: int
    has_chance: bool = False
    has_perfect_information: bool = True
    rewards_every_move: bool = False
    min_return: float = -1.0
    max_return: float = 1.0
    action_names: tuple[str, ...] = ()
    """How people call the actions, where numbers would not do."""

    @property
    def is_zero_sum(self) -> bool:
        """Every pgx game for more than one player is."""
        return self.players > 1


_ARCADE = PgxRules(
    players=1,
    actions=0,
    observation_shape=(),
    max_length=ARCADE_LIMIT,
    has_chance=True,
    has_perfect_information=False,
    rewards_every_move=True,
    min_return=0.0,
    max_return=10.0 * ARCADE_LIMIT,
)

RULES = {
    "2048": PgxRules(
        players=1,
        actions=4,
        observation_shape=(4, 4, 31),
        # The sum of the tiles grows by at least 2 with each move and cannot exceed 2^18.
        max_length=131_072,
        has_chance=True,
        rewards_every_move=True,
        min_return=0.0,
        max_return=4_000_000.0,
        action_names=("left", "up", "right", "down"),
    ),
    "animal_shogi": PgxRules(actions=132, observation_shape=(4, 3, 194), max_length=256),
    "backgammon": PgxRules(
        actions=156,
        observation_shape=(34,),
        # Checkers that are hit start again, so there is no strict bound; random games take about 200 plies.
        max_length=10_000,
        has_chance=True,
        min_return=-3.0,
        max_return=3.0,
    ),
    "chess": PgxRules(actions=4672, observation_shape=(8, 8, 119), max_length=512),
    "connect_four": PgxRules(actions=7, observation_shape=(6, 7, 2), max_length=42),
    "gardner_chess": PgxRules(actions=1225, observation_shape=(5, 5, 115), max_length=256),
    "go_9x9": PgxRules(actions=82, observation_shape=(9, 9, 17), max_length=162),
    "go_19x19": PgxRules(actions=362, observation_shape=(19, 19, 17), max_length=722),
    "hex": PgxRules(actions=122, observation_shape=(11, 11, 4), max_length=122),
    "kuhn_poker": PgxRules(
        actions=2,
        observation_shape=(7,),
        max_length=3,
        has_chance=True,
        has_perfect_information=False,
        min_return=-2.0,
        max_return=2.0,
    ),
    "leduc_holdem": PgxRules(
        actions=3,
        observation_shape=(34,),
        max_length=8,
        has_chance=True,
        has_perfect_information=False,
        min_return=-13.0,
        max_return=13.0,
    ),
    "minatar-asterix": replace(
        _ARCADE, actions=5, observation_shape=(10, 10, 4), action_names=("stay", "left", "up", "right", "down")
    ),
    "minatar-breakout": replace(
        _ARCADE, actions=3, observation_shape=(10, 10, 4), action_names=("stay", "left", "right")
    ),
    "minatar-freeway": replace(
        _ARCADE,
        actions=3,
        observation_shape=(10, 10, 7),
        max_length=2_501,
        max_return=2_501.0,
        action_names=("stay", "up", "down"),
    ),
    "minatar-seaquest": replace(
        _ARCADE, actions=6, observation_shape=(10, 10, 10), action_names=("stay", "left", "up", "right", "down", "fire")
    ),
    "minatar-space_invaders": replace(
        _ARCADE, actions=4, observation_shape=(10, 10, 6), action_names=("stay", "left", "right", "fire")
    ),
    "othello": PgxRules(actions=65, observation_shape=(8, 8, 2), max_length=128),
    "shogi": PgxRules(actions=2187, observation_shape=(9, 9, 119), max_length=512),
    "sparrow_mahjong": PgxRules(
        players=3,
        actions=11,
        observation_shape=(11, 15),
        max_length=30,
        has_chance=True,
        has_perfect_information=False,
        # Who discards a tile that completes two hands pays both.
        min_return=-2.0,
    ),
    "tic_tac_toe": PgxRules(actions=9, observation_shape=(3, 3, 2), max_length=9),
}

REFUSED = {
    "bridge_bidding": "needs a table of double-dummy results that pgx downloads",
    "mahjong": "unfinished in pgx",
}
