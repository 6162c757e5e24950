"""Fixed players: opponents that never learn. `random`, `first`, `mcts-25`, `minimax-3`, and what others register.

Invariant: a player keeps nothing between moves and takes all its randomness from the generator it is given, so one
player serves any number of games at once and the same generator gives the same move. Add one from a plugin with
`register_player`, or from an installed package with an entry point in the group `ludus.players`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ludus.errors import ConfigError
from ludus.games import Game, Position
from ludus.plugins import Registry

MAX_SIMULATIONS = 1_000_000
MAX_DEPTH = 99

_NAME = re.compile(r"(?P<kind>[a-z][a-z0-9_]*)(?:-(?P<number>[1-9][0-9]*))?")


class Player(Protocol):
    """Somebody who can sit at a game."""

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Choose a legal action for an acting seat. Called once per decision; must not change the position."""
        ...


PlayerFactory = Callable[[Game], Player]
"""Makes a player for a game; raises `ConfigError` when it cannot play it."""


class RandomPlayer:
    """Plays any legal action with equal probability."""

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Choose uniformly."""
        legal = position.legal(seat)
        return legal[int(rng.integers(len(legal)))]


class FirstPlayer:
    """Plays the first legal action."""

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Choose the lowest number."""
        return position.legal(seat)[0]


def register_player(name: str, factory: PlayerFactory) -> None:
    """Make a player known under a name."""
    if (match := _NAME.fullmatch(name)) and match["kind"] in BUILT_IN:
        raise ConfigError(f"player name {name!r}: expected a new name; {match['kind']} is taken")
    PLAYERS.add(name, factory)


def make_player(name: str, game: Game) -> Player:
    """Make the fixed player of that name for a game."""
    match = _NAME.fullmatch(name)
    if not match:
        raise ConfigError(f"player {name!r}: expected a name such as random, mcts-25 or minimax-3")
    if match["kind"] in BUILT_IN:
        return BUILT_IN[match["kind"]](game, int(match["number"]) if match["number"] else None)
    if (factory := PLAYERS.get(name)) is None:
        raise ConfigError(f"player {name!r}: {PLAYERS.unknown(match['kind'])}")
    return factory(game)


def _random(game: Game, number: int | None) -> Player:
    _refuse_number("random", number)
    return RandomPlayer()


def _first(game: Game, number: int | None) -> Player:
    _refuse_number("first", number)
    return FirstPlayer()


def _mcts(game: Game, number: int | None) -> Player:
    simulations = _require_number("mcts", number, MAX_SIMULATIONS, "simulations per move, as in mcts-25")
    from ludus.explore.players.search import MctsPlayer

    return MctsPlayer(game, simulations)


def _minimax(game: Game, number: int | None) -> Player:
    depth = _require_number("minimax", number, MAX_DEPTH, "plies to look ahead, as in minimax-3")
    from ludus.explore.players.search import MinimaxPlayer

    return MinimaxPlayer(game, depth)


def _refuse_number(kind: str, number: int | None) -> None:
    if number is not None:
        raise ConfigError(f"player '{kind}-{number}': {kind} takes no number")


def _require_number(kind: str, number: int | None, most: int, meaning: str) -> int:
    if number is None or number > most:
        raise ConfigError(f"player {kind!r}: expected 1 to {most} {meaning}")
    return number


BUILT_IN: dict[str, Callable[[Game, int | None], Player]] = {
    "first": _first,
    "mcts": _mcts,
    "minimax": _minimax,
    "random": _random,
}

PLAYERS: Registry[PlayerFactory] = Registry(
    "player", "ludus.players", reserved=tuple(BUILT_IN), pattern=_NAME.pattern, expected="small letters, digits and _"
)
