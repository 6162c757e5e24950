"""Perfect play at Connect Four, by the solver bitbully (an optional package under the AGPL): move values and outcomes.

Invariant: values are exact, from the mover's side. A position is the list of columns that were played.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from ludus.extras import need_packages
from ludus.games.protocol import GameSpec

GAMES = ("open_spiel:connect_four", "pgx:connect_four")


def can_solve(spec: GameSpec) -> bool:
    """Whether this is a game that the solver knows, and the solver is installed."""
    return spec.key in GAMES and find_spec("bitbully") is not None


class ConnectFourSolver:
    """Loads its opening book once, in about a second."""

    def __init__(self) -> None:
        """Raises ConfigError if bitbully is not installed."""
        need_packages("the solver", "bitbully")
        import bitbully

        self._board: Any = bitbully.Board
        self._agent: Any = bitbully.BitBully()

    def values(self, moves: Sequence[int]) -> dict[int, int]:
        """By column: more is better for who is to move, positive wins, 0 draws; a sooner win is worth more."""
        scores: dict[int, int] = self._agent.score_all_moves(self._after(moves))
        return scores

    def outcomes(self, moves: Sequence[int]) -> dict[int, int]:
        """By column: 1 where the mover wins from then on, 0 where it draws, -1 where it loses; half the work."""
        board, found = self._after(moves), {}
        for column in board.legal_moves():
            after = board.copy()
            after.play(column)
            if after.is_game_over():
                found[int(column)] = int(after.has_win())
            else:
                theirs = self._agent.negamax(after, alpha=-1, beta=1)
                found[int(column)] = (theirs < 0) - (theirs > 0)
        return found

    def _after(self, moves: Sequence[int]) -> Any:
        board = self._board()
        for column in moves:
            board.play(int(column))
        return board
