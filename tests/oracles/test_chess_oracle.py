"""open_spiel:chess against python-chess: the same moves are legal along random games."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.games import make_game

chess = pytest.importorskip("chess")


def test_legal_moves_of_chess_are_those_of_python_chess() -> None:
    game, rng = make_game("open_spiel:chess"), np.random.default_rng(0)
    positions = 0
    for seed in range(6):
        position, board = game.start(seed), chess.Board()
        while position.acting() and board.ply() < 120:
            seat = position.acting()[0]
            assert seat == (0 if board.turn == chess.BLACK else 1)
            sans = {position.action_text(seat, action): action for action in position.legal(seat)}
            moves = {name: board.parse_san(name) for name in sans}
            assert set(moves.values()) == set(board.legal_moves)
            name = sorted(sans)[int(rng.integers(len(sans)))]
            position.act({seat: sans[name]})
            board.push(moves[name])
            positions += 1
        is_over = board.is_game_over(claim_draw=False) or board.is_repetition(3)
        assert bool(position.acting()) or is_over
    assert positions > 400


def test_mate_is_paid_to_the_winner() -> None:
    position = make_game("open_spiel:chess").start(0)
    for san in ("f3", "e5", "g4", "Qh4#"):
        (seat,) = position.acting()
        names = {position.action_text(seat, action): action for action in position.legal(seat)}
        position.act({seat: names[san]})
    winner = seat
    assert position.acting() == ()
    assert position.returns()[winner] == 1.0
    assert sum(position.returns()) == 0.0
