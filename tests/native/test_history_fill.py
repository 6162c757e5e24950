"""Planes against a second, independent reading of the format, and what stands in for a history that a FEN lacks."""

import chess as python_chess
import numpy as np
import pytest

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import Board, Search
from tests.native import facts_oracle, oracle

FENS = [
    python_chess.STARTING_FEN,
    "8/8/8/4k3/8/3K4/8/7R w - - 3 1",
    "7k/8/8/4K3/8/8/1N4b1/8 w - - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 5 1",
    "8/2k5/8/8/3pP3/8/5K2/8 b - e3 0 1",
    "8/5k2/8/1pPp4/8/8/1K6/8 w - b6 0 1",
    "6k1/8/8/8/8/8/8/KQ6 w - - 10 20",
]


def play(fen: str, plies: int, seed: int) -> tuple[list[python_chess.Board], Board]:
    """Random moves, half of which go back, so that positions repeat."""
    rng = np.random.default_rng(seed)
    theirs, ours = python_chess.Board(fen), Board(fen)
    boards, moves = [theirs.copy()], []
    for _ in range(plies):
        legal = list(theirs.legal_moves)
        if not legal:
            break
        move = legal[int(rng.integers(len(legal)))]
        if len(moves) >= 2 and rng.random() < 0.5:
            back = python_chess.Move(moves[-2].to_square, moves[-2].from_square)
            move = back if back in legal else move
        moves.append(move)
        theirs.push(move)
        ours.push(move.uci())
        boards.append(theirs.copy())
    return boards, ours


@pytest.mark.parametrize("fen", FENS)
def test_planes_equal_a_second_reading_of_the_format(fen: str) -> None:
    for seed in range(6):
        for plies in (0, 1, 2, 5, 12):
            boards, ours = play(fen, plies, seed)
            for form in oracle.FORMATS:
                for fill in ("no", "fen_only", "always"):
                    wanted = facts_oracle.encode(boards, form, fill)
                    found = ours.encode(input_format=form, history_fill=fill)
                    message = f"{boards[-1].fen()} format {form} fill {fill}"
                    np.testing.assert_array_equal(found, wanted, message)
                np.testing.assert_array_equal(oracle.encode(boards, form)[0], facts_oracle.encode(boards, form))


def test_a_position_from_a_fen_is_its_own_history_and_the_usual_start_has_none() -> None:
    start = Board()
    np.testing.assert_array_equal(start.encode(history_fill="fen_only"), start.encode())
    filled = Board(FENS[3]).encode(history_fill="fen_only")
    for step in range(1, 8):
        np.testing.assert_array_equal(filled[13 * step : 13 * step + 13], filled[:13])
    start.push("e2e4")
    assert start.encode(history_fill="always")[26:39].any()
    assert not start.encode(history_fill="fen_only")[26:39].any()


def test_before_an_en_passant_the_pawn_had_not_moved() -> None:
    planes = Board("8/2k5/8/8/3pP3/8/5K2/8 b - e3 0 1").encode(history_fill="fen_only")
    theirs = [np.argwhere(planes[13 * step + 6]).tolist() for step in range(8)]
    assert theirs[0] == [[4, 4]]  # e4, seen by black
    assert theirs[1:] == [[[6, 4]]] * 7  # e2


def test_a_search_fills_the_history_as_it_is_asked_to() -> None:
    board = Board(FENS[3])
    for fill in ("no", "fen_only"):
        search = Search([board], history_fill=fill)
        np.testing.assert_array_equal(search.collect(1, visits=1)[0], board.encode(history_fill=fill))
    with pytest.raises(ValueError, match="history_fill must be no, fen_only or always"):
        board.encode(history_fill="fen")
