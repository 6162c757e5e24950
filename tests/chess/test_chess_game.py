"""`chess:standard`: the rules as python-chess has them, the protocol of games, and people's notation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chess
import numpy as np
import pytest

from ludus.cli.play import ask_on_board
from ludus.errors import ConfigError, EnvError, PolicyError
from ludus.explore.players.fixed import make_player
from ludus.games import make_game
from ludus.games.listing import available_games
from ludus.testing import check_game

pytest.importorskip("ludus_chess")
from ludus.chess.game import MAX_PLIES, OPENING_PLIES, ChessPosition

FOOLS_MATE = ("f3", "e5", "g4", "Qh4#")


def play(*moves: str) -> ChessPosition:
    position = ChessPosition()
    for move in moves:
        (seat,) = position.acting()
        action = position.parse_action(seat, move)
        assert action is not None, move
        position.act({seat: action})
    return position


def test_chess_keeps_the_promises_of_games() -> None:
    check_game(make_game("chess:standard"), games=3)


def test_openings_keep_the_promises_of_games() -> None:
    check_game(make_game("chess:openings"), games=3)


def test_an_opening_is_decided_by_its_seed_and_white_moves_first() -> None:
    game = make_game("chess:openings")
    begun = [game.start(seed) for seed in range(40)]
    assert len({position.text() for position in begun}) == 40
    assert game.start(7).text() == begun[7].text()
    for position in begun:
        assert isinstance(position, ChessPosition)
        assert position.acting() == (0,)
        assert position.board.white_to_move
        _, moves = position.uci_position()
        oracle = chess.Board()
        for move in moves:
            oracle.push_uci(move)
        assert len(moves) == OPENING_PLIES
        assert position.board.fen().split()[:2] == oracle.fen().split()[:2]


def test_the_game_is_listed() -> None:
    (listing,) = [each for each in available_games() if each.key == "chess:standard"]
    assert listing.ok
    assert (listing.actions, listing.observation_shape) == (1858, (112, 8, 8))


def test_random_games_end_as_python_chess_says() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        position, other = ChessPosition(), chess.Board()
        while acting := position.acting():
            seat = acting[0]
            assert seat == (0 if other.turn else 1)
            names = {position.action_text(seat, action): action for action in position.legal(seat)}
            assert set(names) == {other.san(move) for move in other.legal_moves}
            san = sorted(names)[rng.integers(len(names))]
            other.push_san(san)
            position.act({seat: names[san]})
            assert f"FEN: {other.fen(en_passant='fen')}" in position.text() or f"FEN: {other.fen()}" in position.text()
        outcome = other.outcome(claim_draw=True)
        assert outcome is not None
        white = {True: 1.0, False: -1.0, None: 0.0}[outcome.winner]
        assert position.returns() == [white, -white]


def test_text_shows_the_board_from_the_seat_with_files_ranks_and_fen() -> None:
    position = play("e4")
    lines = position.text().splitlines()
    assert lines[4:9] == [
        "4  . . . . P . . .",
        "3  . . . . . . . .",
        "2  P P P P . P P P",
        "1  R N B Q K B N R",
        "   a b c d e f g h",
    ]
    assert lines[9].startswith("FEN: rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq")
    assert lines[10] == "Black to move"
    assert position.text(1).splitlines()[:2] == ["1  R N B K Q B N R", "2  P P P . P P P P"]
    assert position.text(1).splitlines()[8] == "   h g f e d c b a"


def test_moves_are_read_in_san_and_uci() -> None:
    position = ChessPosition()
    assert position.parse_action(0, "Nf3") == position.parse_action(0, "g1f3") == position.from_uci("g1f3")
    assert position.parse_action(0, "c4") == position.parse_action(0, "C2C4")
    assert all(position.parse_action(0, text) is None for text in ("Bc4", "e2e5", "", "?!", "O-O", "x" * 1000, "é4"))
    castling = play("e4", "e5", "Nf3", "Nc6", "Bc4", "Bc5")
    assert castling.parse_action(0, "O-O") == castling.parse_action(0, "e1g1")


def test_a_mate_is_won_and_told() -> None:
    position = play(*FOOLS_MATE)
    assert position.returns() == [-1.0, 1.0]
    assert position.text().endswith("0-1 (checkmate)")
    with pytest.raises(EnvError, match="over"):
        position.act({0: 0})


def test_threefold_repetition_is_a_draw_that_nobody_has_to_claim() -> None:
    position = play(*("Nf3", "Nf6", "Ng1", "Ng8") * 2)
    assert position.returns() == [0.0, 0.0]
    assert "repetition" in position.text()


def test_a_game_that_goes_on_and_on_is_drawn() -> None:
    """Pawn moves and knight tours that never repeat for long; the bound of the spec holds whatever is played."""
    rng = np.random.default_rng(5)
    longest = 0
    for _ in range(20):
        position, plies = ChessPosition(), 0
        while acting := position.acting():
            legal = position.legal(acting[0])
            # Avoid captures, so that games get long.
            quiet = [a for a in legal if "x" not in position.action_text(acting[0], a)] if plies % 3 else legal
            position.act({acting[0]: int(rng.choice(quiet or legal))})
            plies += 1
        longest = max(longest, plies)
        assert plies <= MAX_PLIES
        if "(length)" in position.text():
            assert position.returns() == [0.0, 0.0]
            return
    pytest.fail(f"no game of {longest} plies was long enough")


def test_unknown_chess_is_refused() -> None:
    with pytest.raises(ConfigError, match="there are chess:standard and chess:openings"):
        make_game("chess:960")


def test_a_uci_engine_is_a_fixed_player(stockfish: str) -> None:
    game = make_game("chess:standard")
    player = make_player("uci:stockfish?nodes=300", game)
    position = play("f3", "e5", "g4")
    rng = np.random.default_rng(0)
    assert position.action_text(1, player.choose(position, 1, rng)) == "Qh4#"
    opening = ChessPosition()
    assert len({player.choose(opening, 0, rng) for _ in range(3)}) == 1
    drawn = make_player("uci:stockfish?nodes=300&multipv=5&temperature=50", game)
    assert len({drawn.choose(opening, 0, rng) for _ in range(12)}) > 1


def test_an_engine_that_lies_costs_the_game_and_the_next_one_gets_another(hostile: Callable[[str], str]) -> None:
    game, rng = make_game("chess:standard"), np.random.default_rng(0)
    liar = make_player(f"uci:{hostile('illegal')}", game)
    for _ in range(2):
        with pytest.raises(PolicyError, match=r"has no legal move to offer: .*'e2e5' is not a legal move"):
            liar.choose(ChessPosition(), 0, rng)
    silent = make_player(f"uci:{hostile('none')}", game)
    with pytest.raises(PolicyError, match="it says that there is none"):
        silent.choose(ChessPosition(), 0, rng)


def test_a_uci_engine_plays_nothing_but_chess() -> None:
    with pytest.raises(ConfigError, match="cannot play open_spiel:tic_tac_toe: UCI engines play chess:standard"):
        make_player("uci:sh", make_game("open_spiel:tic_tac_toe"))


def test_people_move_in_san_and_uci_at_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Table:
        position = ChessPosition()

    typed = iter(["?", "Bc4", "c9", "c2c4"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    table: Any = Table()
    assert ask_on_board(table, 0) == table.position.from_uci("c2c4")
    said = capsys.readouterr().out
    assert "legal moves: " in said
    assert "Nf3" in said
    assert "'Bc4' is not a legal move here" in said, "a pawn is not taken for a bishop, nor the other way round"


def test_a_drawn_game_pays_nothing_to_both() -> None:
    assert [str(each) for each in play(*("Nf3", "Nf6", "Ng1", "Ng8") * 2).returns()] == ["0.0", "0.0"]
