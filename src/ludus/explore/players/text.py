"""Fixed players at games of words: they choose among the moves that a position lists, or by the board below it.

Invariant: as for every fixed player, nothing is kept between moves and all randomness comes from the generator.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ludus.errors import ConfigError, PolicyError
from ludus.explore.players.fixed import Player, make_player
from ludus.games.protocol import TextGame, TextPosition


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
