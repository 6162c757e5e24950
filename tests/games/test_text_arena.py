"""TextArena's games."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ludus.errors import ConfigError
from ludus.games import InvalidMove, make_text_game
from ludus.games.text_arena_catalog import known_ids, refusal


def play_at_random(key: str, seed: int) -> list[str]:
    """All that is told in a game of random legal moves, and how it ends."""
    rng, position = random.Random(seed), make_text_game(key).start(seed)
    told = []
    while (seat := position.acting()) is not None:
        told.append(f"{seat}: {position.news(seat)}")
        moves = position.moves(seat)
        assert moves
        position.act(seat, rng.choice(moves))
    return [*told, str(position.returns())]


def test_seats_are_told_the_rules_once_and_then_what_is_new() -> None:
    position = make_text_game("textarena:TicTacToe-v0-train").start(0)
    first = position.news(0)
    assert first.startswith("You are Player 0 in Tic Tac Toe.")
    assert first.endswith("Available Moves: '[0]', '[1]', '[2]', '[3]', '[4]', '[5]', '[6]', '[7]', '[8]'")
    position.act(0, "[4]")
    position.act(1, "[0]")
    news = position.news(0)
    assert "You are Player 0" not in news
    assert "Player 1 placed their symbol (X) in cell 0." in news
    assert news.count("Current Board") == 1
    assert " X | 1 | 2" in news


def test_seat_is_not_told_its_own_words_but_those_of_others() -> None:
    position = make_text_game("textarena:TicTacToe-v0").start(0)
    position.act(0, "I take the middle: [4]")
    position.act(1, "[0] is mine")
    assert "[Player 1] [0] is mine" in position.news(0)
    assert "I take the middle" not in position.news(0)


def test_brackets_may_be_left_out_where_text_arena_adds_them() -> None:
    position = make_text_game("textarena:TicTacToe-v0").start(0)
    position.act(0, "4")
    assert position.moves(1) == [f"[{cell}]" for cell in range(9) if cell != 4]


def test_returns_come_at_the_end() -> None:
    position = make_text_game("textarena:TicTacToe-v0").start(0)
    for seat, cell in ((0, 0), (1, 3), (0, 1), (1, 4), (0, 2)):
        assert position.returns() == [0.0, 0.0]
        position.act(seat, f"[{cell}]")
    assert position.acting() is None
    assert position.returns() == [1.0, -1.0]
    with pytest.raises(InvalidMove, match="not seat 1's turn"):
        position.act(1, "[5]")


def test_invalid_moves_are_refused_however_many_and_change_nothing() -> None:
    position = make_text_game("textarena:TicTacToe-v0").start(0)
    position.act(0, "[4]")
    before = (position.acting(), position.news(1), position.moves(1), position.text())
    for move in ("[4]", "[9]", "no idea", "", "[4]", "x" * 20_000):
        with pytest.raises(InvalidMove):
            position.act(1, move)
        assert (position.acting(), position.news(1), position.moves(1), position.text()) == before
    position.act(1, "[0]")
    assert "invalid" not in position.news(0)


def test_reason_of_text_arena_is_given() -> None:
    with pytest.raises(InvalidMove, match=r"textarena:Nim-v0: Cannot remove 9 from pile 0 \(only 3 left\)"):
        make_text_game("textarena:Nim-v0").start(0).act(0, "[0 9]")


def test_move_that_text_arena_punishes_by_death_is_refused_instead() -> None:
    with pytest.raises(InvalidMove, match="names no direction"):
        make_text_game("textarena:Snake-v0").start(0).act(0, "forward")


def test_mine_ends_the_game_instead_of_being_an_invalid_move() -> None:
    assert play_at_random("textarena:Minesweeper-v0", 0)[-1] != "[1.0]"


def test_solved_puzzle_is_won_although_text_arena_forgot_how() -> None:
    position = make_text_game("textarena:FifteenPuzzle-v0").start(0)
    board = position._environment._env.board  # type: ignore[attr-defined]
    board[:] = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, None, 15]]
    position.act(0, "[left]")
    assert position.returns() == [1.0]


def test_seat_without_a_legal_move_loses() -> None:
    position = make_text_game("textarena:Breakthrough-v0").start(0)
    board = position._environment._env.state.game_state["board"]  # type: ignore[attr-defined]
    for row in board:
        row[:] = [""] * len(row)
    board[2][0], board[4][0], board[6][5] = "W", "B", "B"
    position.act(0, "[a3a4]")
    position.act(1, "[f7f6]")
    assert position.acting() is None
    assert position.returns() == [-1.0, 1.0]


@pytest.mark.parametrize("key", ["textarena:KuhnPoker-v0", "textarena:PigDice-v0-short", "textarena:Battleship-v0"])
def test_seed_decides_all_chance(key: str) -> None:
    assert play_at_random(key, 1) == play_at_random(key, 1)
    assert len({tuple(play_at_random(key, seed)) for seed in range(4)}) == 4


def test_games_in_threads_do_not_share_their_dice() -> None:
    key = "textarena:PigDice-v0-short"
    alone = [play_at_random(key, seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda seed: play_at_random(key, seed), range(8)))
    assert together == alone


def test_global_random_numbers_are_left_alone() -> None:
    random.seed(7)
    before = random.getstate()
    play_at_random("textarena:KuhnPoker-v0", 3)
    assert random.getstate() == before


PROGRAM = """
from ludus.games import make_text_game
for key in ("textarena:Briscola-v0", "textarena:RushHour-v0", "textarena:Taboo-v0"):
    position = make_text_game(key).start(5)
    seat = position.acting()
    print(seat, position.news(seat), position.text())
"""


def test_game_is_the_same_in_another_process() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        for hash_seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""
    assert [run.stderr for run in runs] == ["", ""]


def test_loading_prints_nothing_and_asks_no_network(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_network(*arguments: object, **options: object) -> None:
        raise AssertionError("a game asks the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    for id in ("SettlersOfCatan-v0", "Secretary-v0", "NewRecruit-v0"):
        make_text_game(f"textarena:{id}").start(0)
    assert capfd.readouterr() == ("", "")


def test_refused_games_say_why_without_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*arguments: object, **options: object) -> None:
        raise AssertionError("a game asks the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    refused = {id: refusal(game) for id, game in known_ids().items() if refusal(game)}
    assert len(refused) > 100
    for id, reason in refused.items():
        with pytest.raises(ConfigError) as caught:
            make_text_game(f"textarena:{id}")
        assert str(caught.value) == f"game textarena:{id}: {reason}"


def test_every_other_game_loads() -> None:
    games = {game: id for id, game in reversed(known_ids().items()) if not refusal(game)}
    assert len(games) >= 70
    for game, id in games.items():
        if game not in ("RushHour", "Set", "Sokoban"):
            assert make_text_game(f"textarena:{id}").start(1).acting() is not None


def test_game_that_needs_a_newer_python_is_taken_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal("Chess") == ("" if sys.version_info >= (3, 12) else "its source in TextArena needs Python 3.12")
    monkeypatch.setattr(sys, "version_info", (3, 12))
    assert refusal("Chess") == ""


def test_word_games_are_taken_when_nltk_has_its_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "NLTK's word lists" in refusal("Wordle")
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "words.zip").touch()
    assert refusal("Wordle") == ""
