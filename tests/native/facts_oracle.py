"""lc0's planes once more, straight from the written facts of the format, with sets of squares and no bit tricks.

`oracle.py` was written with the C++ code; this file was written later from the format's description, to find what
both might have misread. A square is (file, rank) from the mover's view, both from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]
Cells = frozenset[Cell]
KINDS = (chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING)
COMPARED = (None, "ours", chess.KING, chess.QUEEN, chess.ROOK, chess.KNIGHT, chess.BISHOP)


def encode(boards: Sequence[chess.Board], form: int, fill: str = "no") -> NDArray[np.float32]:
    """Planes `[112, 8, 8]` of the last of a game's boards, each of which must know the moves before it."""
    now = boards[-1]
    steps = history(boards, form, fill)
    turn = turn_of(now) if form >= 3 else ""
    planes = np.zeros((112, 8, 8), np.float32)
    for number, step in enumerate(steps):
        for plane, cells in enumerate(step):
            paint(planes[13 * number + plane], {turned(cell, turn) for cell in cells})
    rights(planes, now, form)
    if form in (1, 2):
        planes[108] = now.turn == chess.BLACK
    elif (file := passing_file(now)) is not None:
        paint(planes[108], {(7 - file if "f" in turn else file, 7)})
    planes[109] = np.float32(now.halfmove_clock) / np.float32(100 if form in (4, 5, 132, 133) else 99)
    planes[110] = form in (132, 133) and now.turn == chess.BLACK
    planes[111] = 1
    return planes


def history(boards: Sequence[chess.Board], form: int, fill: str) -> list[list[set[Cell]]]:
    """Up to eight steps, the newest first, each of 13 sets."""
    now, steps = boards[-1], []
    for ago, board in enumerate(reversed(boards)):
        if form >= 3 and board.clean_castling_rights() != now.clean_castling_rights():
            return steps[:8]
        if form >= 3 and ago > 0 and passing_file(board) is not None:
            return steps[:8]
        if ago == 0 or form not in (5, 133) or occurred_before(boards, board):
            steps.append(step_of(board, now.turn, occurred_before(boards, board)))
        if form >= 3 and board.halfmove_clock == 0:
            return steps[:8]
    first = boards[0]
    is_filled = fill == "always" or (fill == "fen_only" and first.epd() != chess.Board().epd())
    if not is_filled or form in (5, 133) or (form >= 3 and passing_file(first) is not None):
        return steps[:8]
    before = step_of(undo_double_step(first), now.turn, False)
    return (steps + [before] * 8)[:8]


def undo_double_step(board: chess.Board) -> chess.Board:
    """The pawn that could be taken in passing is back where it came from."""
    earlier = board.copy(stack=False)
    if passing_file(board) is not None and board.ep_square is not None:
        away = 8 if board.turn == chess.BLACK else -8
        pawn = earlier.remove_piece_at(board.ep_square + away)
        earlier.set_piece_at(board.ep_square - away, pawn)
    return earlier


def occurred_before(boards: Sequence[chess.Board], board: chess.Board) -> bool:
    at = next(i for i, other in enumerate(boards) if other is board)
    return any(other._transposition_key() == board._transposition_key() for other in boards[:at])


def step_of(board: chess.Board, us: chess.Color, is_repeated: bool) -> list[set[Cell]]:
    sets = [set(map_view(board.pieces(kind, color), us)) for color in (us, not us) for kind in KINDS]
    everywhere = {(file, rank) for file in range(8) for rank in range(8)}
    return [*sets, everywhere if is_repeated else set()]


def map_view(squares: Iterable[int], us: chess.Color) -> Iterable[Cell]:
    for square in squares:
        rank = chess.square_rank(square)
        yield chess.square_file(square), rank if us == chess.WHITE else 7 - rank


def passing_file(board: chess.Board) -> int | None:
    """Of the pawn that just moved two, where an enemy pawn stands beside it."""
    if board.ep_square is None:
        return None
    file, rank = chess.square_file(board.ep_square), 4 if board.turn == chess.WHITE else 3
    beside = [chess.square(f, rank) for f in (file - 1, file + 1) if 0 <= f <= 7]
    return file if any(board.piece_at(s) == chess.Piece(chess.PAWN, board.turn) for s in beside) else None


def turn_of(board: chess.Board) -> str:
    """Which of f(lip), m(irror) and t(ranspose) the format applies."""
    if board.clean_castling_rights():
        return ""
    ((file, rank),) = map_view([board.king(board.turn)], board.turn)  # type: ignore[list-item]
    turn = "f" if file <= 3 else ""
    if board.pieces(chess.PAWN, chess.WHITE) or board.pieces(chess.PAWN, chess.BLACK):
        return turn
    turn += "m" if rank >= 4 else ""
    file, rank = turned((file, rank), turn)
    if rank > 7 - file:
        return turn + "t"
    return turn + "t" if rank == 7 - file and is_smaller_transposed(board, turn) else turn


def is_smaller_transposed(board: chess.Board, turn: str) -> bool:
    for what in COMPARED:
        squares = [
            square
            for square, piece in board.piece_map().items()
            if what is None or (piece.color == board.turn if what == "ours" else piece.piece_type == what)
        ]
        cells = list(map_view(squares, board.turn))
        plain, other = (sum(1 << (8 * r + f) for f, r in (turned(c, t) for c in cells)) for t in (turn, turn + "t"))
        if plain != other:
            return other < plain
    return False


def turned(cell: Cell, turn: str) -> Cell:
    file, rank = cell
    if "f" in turn:
        file = 7 - file
    if "m" in turn:
        rank = 7 - rank
    return (7 - rank, 7 - file) if "t" in turn else (file, rank)


def rights(planes: NDArray[Any], board: chess.Board, form: int) -> None:
    for color in chess.COLORS:
        is_us = color == board.turn
        king = board.king(color)
        home = chess.BB_RANK_1 if color == chess.WHITE else chess.BB_RANK_8
        for rook in chess.SquareSet(board.clean_castling_rights() & home):
            is_h_side = king is not None and rook > king
            if form == 1:
                planes[104 + is_h_side + (0 if is_us else 2)] = 1
            else:
                planes[104 + is_h_side, 0 if is_us else 7, chess.square_file(rook)] = 1


def paint(plane: NDArray[Any], cells: Iterable[Cell]) -> None:
    for file, rank in cells:
        plane[rank, file] = 1
