"""lc0's encodings again, in NumPy and python-chess alone: what the C++ is compared with.

It goes other ways than the C++: python-chess's rules, dictionaries and arrays `[8, 8]` (rank, file), never bitboards. It shares
the C++'s reading of the format, so it finds slips, not misreadings; format 1 is also held to the real engine's files.
"""

import chess
import numpy as np
from numpy.typing import NDArray

PIECES = (chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING)
FLIP, MIRROR, TRANSPOSE = 1, 2, 4
FORMATS = (1, 2, 3, 4, 5, 132, 133)
Planes = NDArray[np.float32]


def make_policy_moves() -> list[str]:
    plain = [
        chess.square_name(a) + chess.square_name(b)
        for a in range(64)
        for b in range(64)
        if a != b and is_queen_or_knight_step(a, b)
    ]
    promotions = [
        f"{chr(97 + a)}7{chr(97 + b)}8{piece}"
        for a in range(8)
        for b in (a - 1, a, a + 1)
        if 0 <= b < 8
        for piece in "qrb"
    ]
    return plain + promotions


def is_queen_or_knight_step(a: int, b: int) -> bool:
    df = abs(chess.square_file(a) - chess.square_file(b))
    dr = abs(chess.square_rank(a) - chess.square_rank(b))
    return df == 0 or dr == 0 or df == dr or {df, dr} == {1, 2}


POLICY = {uci: index for index, uci in enumerate(make_policy_moves())}


def transform_square(square: int, transform: int) -> int:
    file, rank = chess.square_file(square), chess.square_rank(square)
    if transform & FLIP:
        file = 7 - file
    if transform & MIRROR:
        rank = 7 - rank
    if transform & TRANSPOSE:
        file, rank = 7 - rank, 7 - file
    return chess.square(file, rank)


def policy_index(board: chess.Board, move: chess.Move, transform: int = 0) -> int:
    """`move` in python-chess's form; castling becomes king takes rook."""
    to = move.to_square
    if board.is_castling(move) and not board.chess960:
        to = chess.square(7 if board.is_kingside_castling(move) else 0, chess.square_rank(move.from_square))
    view = (lambda s: s) if board.turn else chess.square_mirror
    uci = "".join(chess.square_name(transform_square(view(s), transform)) for s in (move.from_square, to))
    if move.promotion in (chess.QUEEN, chess.ROOK, chess.BISHOP):
        uci += chess.piece_symbol(move.promotion)
    return POLICY[uci]


def piece_planes(board: chess.Board, us: chess.Color) -> Planes:
    """`[12, 8, 8]` as the side `us` sees the board."""
    planes = np.zeros((12, 8, 8), np.float32)
    for square, piece in board.piece_map().items():
        rank = chess.square_rank(square) if us else 7 - chess.square_rank(square)
        side = 0 if piece.color == us else 6
        planes[side + PIECES.index(piece.piece_type), rank, chess.square_file(square)] = 1
    return planes


def apply_transform(planes: Planes, transform: int) -> Planes:
    if transform & FLIP:
        planes = planes[:, :, ::-1]
    if transform & MIRROR:
        planes = planes[:, ::-1, :]
    if transform & TRANSPOSE:
        planes = planes[:, ::-1, ::-1].transpose(0, 2, 1)
    return np.ascontiguousarray(planes)


def as_number(plane: NDArray[np.float32]) -> int:
    """A picture as the integer whose bit n is square n."""
    return sum(1 << int(s) for s in np.flatnonzero(plane.reshape(64)))


def choose_transform(board: chess.Board) -> int:
    if board.castling_rights:
        return 0
    king = board.king(board.turn)
    assert king is not None
    if not board.turn:
        king = chess.square_mirror(king)
    transform = FLIP if chess.square_file(king) <= 3 else 0
    if board.pawns:
        return transform
    if chess.square_rank(king) >= 4:
        transform |= MIRROR
    king = transform_square(king, transform)
    above = chess.square_file(king) + chess.square_rank(king) - 7
    if above != 0:
        return transform | (TRANSPOSE if above > 0 else 0)
    p = apply_transform(piece_planes(board, board.turn), transform)
    ours = p[:6].sum(0)
    sets = [p.sum(0), ours, p[5] + p[11], p[4] + p[10], p[3] + p[9], p[1] + p[7], p[2] + p[8]]
    for plain in sets:
        a, b = as_number(plain), as_number(apply_transform(plain[None], TRANSPOSE)[0])
        if a != b:
            return transform | (TRANSPOSE if b < a else 0)
    return transform


def pseudo_en_passant(board: chess.Board) -> int | None:
    """The en-passant square where an enemy pawn stands ready, whether or not it is pinned."""
    square = board.ep_square
    if square is None or not board.attackers_mask(board.turn, square) & board.pawns:
        return None
    return square


def repeats(boards: list[chess.Board], index: int) -> bool:
    """Whether the position at `index` occurred before, by the rules: pieces, side, castling, legal en passant."""
    now = boards[index]
    for earlier in range(index - 1, max(-1, index - now.halfmove_clock - 1), -1):
        if boards[earlier]._transposition_key() == now._transposition_key():
            return True
    return False


def encode(boards: list[chess.Board], input_format: int = 1) -> tuple[Planes, int]:
    """The planes `[112, 8, 8]` of the last board of a game, and the transform."""
    now = boards[-1]
    us = now.turn
    canonical = input_format >= 3
    transform = choose_transform(now) if canonical else 0
    planes = np.zeros((112, 8, 8), np.float32)
    step = 0
    for index in range(len(boards) - 1, -1, -1):
        board = boards[index]
        is_now = index == len(boards) - 1
        if step == 8:
            break
        if canonical and board.castling_rights != now.castling_rights:
            break
        if canonical and not is_now and pseudo_en_passant(board) is not None:
            break
        repeated = repeats(boards, index)
        if is_now or repeated or input_format not in (5, 133):
            planes[13 * step : 13 * step + 12] = apply_transform(piece_planes(board, us), transform)
            planes[13 * step + 12] = float(repeated)
            step += 1
        if canonical and board.halfmove_clock == 0:
            break
    write_aux(planes, now, input_format, transform)
    return planes, transform


def write_aux(planes: Planes, board: chess.Board, input_format: int, transform: int) -> None:
    us, them = board.turn, not board.turn
    if input_format == 1:
        planes[104] = board.has_queenside_castling_rights(us)
        planes[105] = board.has_kingside_castling_rights(us)
        planes[106] = board.has_queenside_castling_rights(them)
        planes[107] = board.has_kingside_castling_rights(them)
    else:
        for color, rank in ((us, 0), (them, 7)):
            king = board.king(color)
            assert king is not None
            for rook in chess.SquareSet(board.clean_castling_rights()):
                if chess.square_rank(rook) != (0 if color else 7):
                    continue
                planes[105 if rook > king else 104, rank, chess.square_file(rook)] = 1
    if input_format <= 2:
        planes[108] = not us
    elif (square := pseudo_en_passant(board)) is not None:
        file = chess.square_file(square)
        planes[108, 7, 7 - file if transform & FLIP else file] = 1
    planes[109] = np.float32(board.halfmove_clock) / np.float32(99 if input_format <= 3 else 100)
    if input_format >= 132:
        planes[110] = not us
    planes[111] = 1
