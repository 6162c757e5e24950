"""Fixed players: opponents that never learn. `random`, `first`, `mcts-25`, `minimax-3`, `solver`, UCI engines such
as `uci:stockfish?nodes=100`, and registered ones.
In games of words they choose among the moves that a position lists, or by the board below it.

Invariant: a player keeps nothing between moves and takes all its randomness from the generator it is given, so one
player serves any number of games at once and the same generator gives the same move. Add one from a plugin with
`register_player`, or from an installed package with an entry point in the group `ludus.players`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ludus.errors import ConfigError, PolicyError
from ludus.games import Game, Position
from ludus.games.protocol import TextGame, TextPosition
from ludus.plugins import Registry

BUILT_IN = ("first", "mcts", "minimax", "random", "solver")
NUMBERED = {
    "mcts": (1_000_000, "simulations per move, as in mcts-25"),
    "minimax": (99, "plies to look ahead, as in minimax-3"),
}
"""Players whose name has a number: the most that it may be, and its meaning."""

UCI = "uci:"
"""How the name of an engine begins."""
_NAME = re.compile(r"(?P<kind>[a-z][a-z0-9_]*)(?:-(?P<number>[1-9][0-9]*))?")


class Player(Protocol):
    """Somebody who can sit at a game."""

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Choose a legal action for an acting seat. Called once per decision; must not change the position."""
        ...


PlayerFactory = Callable[[Game], Player]
"""Makes a player for a game; raises `ConfigError` when it cannot play it."""

PLAYERS: Registry[PlayerFactory] = Registry(
    "player", "ludus.players", reserved=BUILT_IN, pattern=_NAME.pattern, expected="small letters, digits and _"
)


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
    if name.startswith(UCI):
        # The room of chess is above this one; it is loaded with the first engine.
        player: Player = import_module("ludus.chess.engines.player").UciPlayer(name, game)
        return player
    match = _NAME.fullmatch(name)
    if not match:
        raise ConfigError(f"player {name!r}: expected a name such as random, mcts-25 or uci:stockfish?nodes=100")
    if match["kind"] in BUILT_IN:
        return _make_built_in(match["kind"], int(match["number"] or 0), game)
    if (factory := PLAYERS.get(name)) is None:
        raise ConfigError(f"player {name!r}: {PLAYERS.unknown(match['kind'])}")
    return factory(game)


def _make_built_in(kind: str, number: int, game: Game) -> Player:
    """`number` is 0 where the name has none."""
    if kind in NUMBERED:
        most, meaning = NUMBERED[kind]
        if not 1 <= number <= most:
            raise ConfigError(f"player {kind!r}: expected 1 to {most} {meaning}")
        from ludus.explore.players.search import MctsPlayer, MinimaxPlayer

        return MctsPlayer(game, number) if kind == "mcts" else MinimaxPlayer(game, number)
    if number:
        raise ConfigError(f"player '{kind}-{number}': {kind} takes no number")
    if kind == "solver":
        from ludus.explore.players.search import SolverPlayer

        return SolverPlayer(game)
    return RandomPlayer() if kind == "random" else FirstPlayer()


class TextPlayer(Protocol):
    """Somebody who can sit at a game of words."""

    def choose(self, position: TextPosition, seat: int, rng: np.random.Generator) -> str:
        """Choose a move for the acting seat. Called once per decision; must not change the position."""
        ...


class BoardPlayer:
    """A player of boards at a game of words that has a board below it."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def choose(self, position: TextPosition, seat: int, rng: np.random.Generator) -> str:
        """Choose on the board, and say it."""
        board: Any = position
        action = self._player.choose(board.position, seat, rng)
        words: str = board.words(seat, action)
        return words


class RandomWords:
    """Says any legal move with equal probability."""

    def choose(self, position: TextPosition, seat: int, rng: np.random.Generator) -> str:
        """Choose uniformly."""
        moves = position.moves(seat)
        if not moves:
            raise PolicyError("the game does not list its legal moves here")
        return moves[int(rng.integers(len(moves)))]


def make_text_player(name: str, game: TextGame) -> TextPlayer:
    """Make the fixed player of that name for a game of words.

    Raises:
        ConfigError: there is no such player, or it cannot play this game.
    """
    board = getattr(game, "game", None)
    if board is not None:
        return BoardPlayer(make_player(name, board))
    if name != "random":
        raise ConfigError(f"player {name!r}: cannot play {game.spec.key}, which has no board; use random")
    position = game.start(0)
    seat = position.acting()
    if seat is None or position.moves(seat) is None:
        raise ConfigError(f"player 'random': cannot play {game.spec.key}, which does not list its legal moves")
    return RandomWords()
