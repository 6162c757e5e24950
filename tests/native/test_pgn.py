"""PGN: the main line as python-chess reads it, and a bad game is a game with problems."""

import random
from pathlib import Path

import pytest

chess_pgn = pytest.importorskip("chess.pgn")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

import chess  # noqa: E402
from ludus_chess import START_FEN, PgnReader, read_pgn  # noqa: E402

ANNOTATED = """\
% an escaped line
[Event "A \\"quoted\\" name"]
[Site "Z\\\\rich"]
[Result "1-0"]

1. e4 {best by test} e5 2.Nf3! ; to the end of the line
(2. f4 exf4 (2... d5 {deep (very)}) 3. Nf3) 2... Nc6 $1 3. Bb5 a6
4.0-0?! Nf6 5. d4 $14 exd4 1-0

[Event "From a position"]
[SetUp "1"]
[FEN "8/P6k/8/8/8/8/7K/8 w - - 0 1"]

1. a8=N Kg7 *
"""


def random_game(seed: int, chess960: bool = False) -> "chess_pgn.Game":
    rng = random.Random(seed)
    board = chess.Board.from_chess960_pos(rng.randrange(960)) if chess960 else chess.Board()
    game = chess_pgn.Game()
    game.setup(board)
    game.headers["White"] = f"Müller {seed}"
    game.headers["Result"] = rng.choice(["1-0", "0-1", "1/2-1/2", "*"])
    node = game
    for _ in range(rng.randrange(1, 120)):
        moves = list(board.legal_moves)
        if not moves:
            break
        move = rng.choice(moves)
        child = node.add_variation(move, comment="(a) [%eval 0.3]; b" if rng.random() < 0.2 else "")
        if rng.random() < 0.2 and len(moves) > 1:
            other = rng.choice([m for m in moves if m != move])
            node.add_variation(other, comment="instead", nags=[3])
        board.push(move)
        node = child
    return game


def test_tags_comments_variations_and_glyphs_are_read() -> None:
    first, second = read_pgn(ANNOTATED)
    assert first.tags == {"Event": 'A "quoted" name', "Site": "Z\\rich", "Result": "1-0"}
    assert first.moves == ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5", "a7a6", "e1g1", "g8f6", "d2d4", "e5d4"]
    assert (first.result, first.problems, first.start_fen, first.line) == ("1-0", [], START_FEN, 2)
    assert second.moves == ["a7a8n", "h7g7"]
    assert (second.result, second.problems, second.number) == ("*", [], 2)
    assert second.start_fen == "8/P6k/8/8/8/8/7K/8 w - - 0 1"


@pytest.mark.parametrize("chess960", [False, True])
def test_main_lines_equal_python_chess(chess960: bool, tmp_path: Path) -> None:
    games = [random_game(seed, chess960) for seed in range(60)]
    path = tmp_path / "games.pgn"
    path.write_text("\n\n".join(str(game) for game in games), encoding="utf-8")
    read = list(PgnReader(str(path)))
    assert len(read) == len(games)
    for ours, theirs in zip(read, games, strict=True):
        board = theirs.board()
        expected = []
        for move in theirs.mainline_moves():
            expected.append(board.uci(move, chess960=chess960))
            board.push(move)
        assert ours.problems == []
        assert ours.result == theirs.headers["Result"]
        assert ours.tags["White"] == theirs.headers["White"]
        if chess960:
            # A board without castling rights left cannot show that it is Chess960; its castling moves are none.
            assert ours.start_fen == theirs.headers["FEN"]
        assert ours.moves == expected


@pytest.mark.parametrize(
    ("text", "moves", "problem"),
    [
        ("1. e4 e5 2. Ke3 Nf6 1-0", 2, 'line 1, game 1: move "Ke3" is not legal'),
        ("1. e4 xyzzy 1-0", 1, 'line 1, game 1: move "xyzzy" is no SAN move'),
        ("1. e4\n(1. d4 e5", 1, "line 2, game 1: a variation is never closed"),
        ("1. e4) e5", 2, "never opened"),
        ("1. e4 {open", 1, "the comment of line 1 is never closed"),
        ('[FEN "8/8/8"]\n\n1. e4 *', 0, "game 1: FEN"),
        ('[Variant "Atomic"]\n\n1. e4 *', 0, "is not chess"),
        ('[Result "0-1"]\n\n1. e4 1-0', 1, "is not that of the tag"),
        ("[Event]\n\n1. e4 *", 1, "has no value in quotes"),
        ('[Event "x]\n\n1. e4 *', 1, "never closed"),
        ("1. -- e5", 0, "is no SAN move"),
    ],
)
def test_a_bad_game_has_problems_and_what_came_before(text: str, moves: int, problem: str) -> None:
    (game,) = read_pgn(text)
    assert len(game.moves) == moves
    assert problem in game.problems[0]


def test_a_bad_game_does_not_spoil_the_next() -> None:
    games = read_pgn('[Event "1"]\n\n1. e4 e4 (2. d4\n\n[Event "2"]\n\n1. d4 d5 1/2-1/2\n')
    assert [len(g.moves) for g in games] == [1, 2]
    assert games[0].problems
    assert games[1].problems == []
    assert games[1].result == "1/2-1/2"


def test_nothing_is_no_game() -> None:
    assert read_pgn("") == []
    assert read_pgn("\ufeff \n% only this\n") == []


def test_a_file_that_is_absent_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.pgn"):
        PgnReader(str(tmp_path / "none.pgn"))


def test_other_encodings_and_endless_games_are_bounded() -> None:
    (game,) = read_pgn(b'[White "M\xfcller"]\n\n1. e4 \xff\xfe *')
    assert game.tags["White"] == "M\ufffdller"
    shuffle = "Nf3 Nf6 Ng1 Ng8 " * 5000
    (long,) = read_pgn(shuffle)
    assert len(long.moves) == 12_000
    assert "more than 12000 moves" in long.problems[0]


def test_random_text_never_crashes_the_reader() -> None:
    rng = random.Random(5)
    alphabet = '[]{}();$%"\\\n 1.*-=+#NBRQKabcdefgh12345678xO0\0é'
    for _ in range(300):
        read_pgn("".join(rng.choice(alphabet) for _ in range(rng.randrange(400))))
