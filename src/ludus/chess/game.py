"""Chess as games of ludus: `chess:standard`, and `chess:openings`, which begins after random moves.

Seat 0 is White. Observations are lc0's 112 planes (input format 1) from the side to move's view, whichever seat looks;
actions are lc0's 1858 policy indices, from the same view, so one action means another move to the other colour.
A game is over by the rules (checkmate, stalemate, insufficient material, fifty moves, threefold repetition; nobody has
to claim a draw), and drawn after `MAX_PLIES` half-moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING

import numpy as np
from ludus_chess import Board
from numpy.typing import NDArray

from ludus.errors import ConfigError, EnvError
from ludus.games.protocol import GameSpec

if TYPE_CHECKING:
    from ludus.chess.network_search import ChessNetworkSearch
    from ludus.config import RunConfig
    from ludus.policies import PolicyStore

ACTIONS = 1858
PLANES = (112, 8, 8)
OPENING_PLIES = 24
"""Random half-moves before a game of `chess:openings`; even, so that White moves first. After so many, games differ
from the start, and one side is often ahead: a weak player can show that it converts."""
MAX_PLIES = 512
"""Games of this length are drawn. Of real games fewer than one in a thousand is longer."""
TOO_LONG = "length"
NAMES = ("White", "Black")
WHITE = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}
"""What White gets."""


class ChessGame:
    """Chess from the start position, or from openings: two greedy players would play one game over and over."""

    def __init__(self, name: str) -> None:
        if name not in ("standard", "openings"):
            raise ConfigError(f"game chess:{name}: no such game; there are chess:standard and chess:openings")
        self._has_openings = name == "openings"
        self.spec = GameSpec(
            key=f"chess:{name}",
            players=2,
            actions=ACTIONS,
            observation_shape=PLANES,
            max_length=MAX_PLIES,
            has_chance=self._has_openings,
        )

    def start(self, seed: int) -> ChessPosition:
        """Begin a game. In `chess:standard` the seed decides nothing, in `chess:openings` the opening."""
        return _opening(seed) if self._has_openings else ChessPosition()

    def network_search(self, store: PolicyStore, config: RunConfig) -> ChessNetworkSearch:
        """The search that a run's networks play with, on the planes that they were trained on."""
        from ludus.chess.network_search import ChessNetworkSearch
        from ludus.chess.network_source import input_format_of

        return ChessNetworkSearch(store, input_format=input_format_of(config))


class ChessPosition:
    """One game in progress."""

    def __init__(self) -> None:
        self._board = Board()
        self._moves: list[str] = []
        self._result: tuple[str, str] | None = None
        self._legal: list[int] | None = None

    def acting(self) -> tuple[int, ...]:
        """The seat that must move; none when the game is over."""
        return () if self._result else (len(self._moves) % 2,)

    def legal(self, seat: int) -> list[int]:
        """Policy indices of the legal moves, ascending."""
        if (seat,) != self.acting():
            raise EnvError(f"chess:standard: seat {seat} is not to act")
        if self._legal is None:
            self._legal = self._board.legal_indices().tolist()
        return self._legal

    def observe(self, seat: int, out: NDArray[np.float32]) -> None:
        """Write the planes, from the side to move's view."""
        out[...] = self._board.encode()

    def act(self, actions: Mapping[int, int]) -> None:
        """Play a move."""
        action = self._checked(actions)
        self._moves.append(self._board.move_of(action))
        self._board.push_index(action)
        self._legal = None
        self._result = self._board.outcome()
        if self._result is None and len(self._moves) >= MAX_PLIES:
            self._result = ("1/2-1/2", TOO_LONG)

    def returns(self) -> list[float]:
        """1 for the winner, -1 for the loser, 0 for both in a draw and before the end."""
        white = WHITE[self._result[0]] if self._result else 0.0
        return [white, 0.0 - white]

    def text(self, seat: int | None = None) -> str:
        """A board with files and ranks, from the seat's side, and what a program reads: the FEN."""
        fen = self._board.fen()
        ranks = [_spread(rank) for rank in fen.split(" ")[0].split("/")]
        rows = [f"{8 - number}  {' '.join(rank)}" for number, rank in enumerate(ranks)]
        files = "   a b c d e f g h"
        if seat == 1:
            rows = [f"{row[0]}  {row[:2:-1]}" for row in reversed(rows)]
            files = f"   {files[:2:-1]}"
        return "\n".join([*rows, files, f"FEN: {fen}", self._status()])

    def action_text(self, seat: int, action: int) -> str:
        """Name a legal move in SAN."""
        if action not in self.legal(seat):
            raise EnvError(f"chess:standard: action {action} is not legal for seat {seat}")
        return self._board.san(self._board.move_of(action))

    def parse_action(self, seat: int, text: str) -> int | None:
        """The legal move that a text means, in SAN or UCI; None when there is none."""
        words = text.strip()
        for candidate in (words, words.lower()):
            try:
                return self.from_uci(candidate)
            except EnvError:
                pass
        try:
            return self._board.index_of(self._board.parse_san(words))
        except ValueError:
            return None

    def uci_position(self) -> tuple[str, Sequence[str]]:
        """What a UCI engine is told."""
        return "startpos", self._moves

    def from_uci(self, move: str) -> int:
        """The action that a move in UCI is; raises `EnvError` when it is not legal."""
        try:
            return self._board.index_of(move)
        except ValueError as error:
            raise EnvError(f"chess:standard: {move[:20]!r} is not a legal move: {error}") from None

    @property
    def board(self) -> Board:
        """A copy of the board, with its history."""
        return self._board.copy()

    def _status(self) -> str:
        if self._result:
            return f"{self._result[0]} ({self._result[1]})"
        check = ", in check" if self._board.is_check() else ""
        return f"{NAMES[len(self._moves) % 2]} to move{check}"

    def _checked(self, actions: Mapping[int, int]) -> int:
        if self._result:
            raise EnvError("chess:standard: the game is over")
        (seat,) = self.acting()
        try:
            action = index(actions[seat])
        except (KeyError, TypeError):
            raise EnvError(f"chess:standard: no action for seat {seat} in {actions!r}") from None
        if action not in self.legal(seat):
            raise EnvError(f"chess:standard: action {action} is not legal for seat {seat}")
        if len(actions) != 1:
            raise EnvError(f"chess:standard: only seat {seat} acts now, got actions for {sorted(actions)}")
        return action


def _opening(seed: int) -> ChessPosition:
    """A position after random moves, in which somebody has to move."""
    rng = np.random.default_rng(seed)
    while True:
        position = ChessPosition()
        for _ in range(OPENING_PLIES):
            if acting := position.acting():
                position.act({acting[0]: int(rng.choice(position.legal(acting[0])))})
        if position.acting():
            return position


def _spread(rank: str) -> str:
    """`3p4` as `...p....`."""
    return "".join("." * int(piece) if piece.isdigit() else piece for piece in rank)
