"""The native board against python-chess: moves, FEN, SAN, the end of a game, and perft."""

import random

import pytest

chess = pytest.importorskip("chess")
ludus_chess = pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import Board, perft  # noqa: E402

PERFT = [
    (chess.STARTING_FEN, [20, 400, 8_902, 197_281, 4_865_609]),
    (
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        [48, 2_039, 97_862, 4_085_603, 193_690_690],
    ),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", [14, 191, 2_812, 43_238, 674_624]),
    ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", [6, 264, 9_467, 422_333, 15_833_292]),
    ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", [44, 1_486, 62_379, 2_103_487, 89_941_194]),
]
REASONS = {
    chess.Termination.CHECKMATE: "checkmate",
    chess.Termination.STALEMATE: "stalemate",
    chess.Termination.INSUFFICIENT_MATERIAL: "insufficient material",
    chess.Termination.FIFTY_MOVES: "fifty moves",
    chess.Termination.THREEFOLD_REPETITION: "threefold repetition",
}


def expected_outcome(board: chess.Board) -> tuple[str, str] | None:
    found = board.outcome()
    if found is None and board.halfmove_clock >= 100:
        return "1/2-1/2", "fifty moves"
    if found is None and board.is_repetition(3):
        return "1/2-1/2", "threefold repetition"
    if found is None:
        return None
    return found.result(), REASONS[found.termination]


def check_same(ours: Board, theirs: chess.Board) -> None:
    moves = list(theirs.legal_moves)
    assert sorted(ours.legal_moves()) == sorted(theirs.uci(m) for m in moves), theirs.fen()
    assert ours.fen() == theirs.fen()
    assert ours.is_check() == theirs.is_check()
    assert (ours.white_to_move, ours.ply, ours.halfmove_clock) == (theirs.turn, theirs.ply(), theirs.halfmove_clock)
    for move in moves:
        san = theirs.san(move)
        assert ours.san(theirs.uci(move)) == san
        assert ours.parse_san(san) == theirs.uci(move)


def play_randomly(seed: int, fen: str, *, chess960: bool, plies: int) -> int:
    rng = random.Random(seed)
    ours, theirs = Board(fen), chess.Board(fen, chess960=chess960)
    for ply in range(plies):
        check_same(ours, theirs)
        expected = expected_outcome(theirs)
        assert ours.outcome() == expected, theirs.fen()
        if expected is not None:
            return ply + 1
        move = rng.choice(list(theirs.legal_moves))
        ours.push(theirs.uci(move))
        theirs.push(move)
    return plies


@pytest.mark.parametrize(("fen", "leaves"), PERFT)
def test_perft_equals_the_known_numbers(fen: str, leaves: list[int]) -> None:
    assert [perft(fen, depth) for depth in range(1, 5)] == leaves[:4]


@pytest.mark.slow
@pytest.mark.parametrize(("fen", "leaves"), PERFT)
def test_perft_to_depth_five_equals_the_known_numbers(fen: str, leaves: list[int]) -> None:
    assert perft(fen, 5) == leaves[4]


def count_leaves(board: chess.Board, depth: int) -> int:
    if depth == 0:
        return 1
    total = 0
    for move in board.legal_moves:
        board.push(move)
        total += count_leaves(board, depth - 1)
        board.pop()
    return total


@pytest.mark.parametrize("number", [0, 17, 518, 959])
def test_perft_of_chess960_equals_python_chess(number: int) -> None:
    board = chess.Board.from_chess960_pos(number)
    assert perft(board.shredder_fen(), 3) == count_leaves(board, 3)


@pytest.mark.parametrize("seed", range(20))
def test_random_games_equal_python_chess(seed: int) -> None:
    play_randomly(seed, chess.STARTING_FEN, chess960=False, plies=100)


@pytest.mark.parametrize("seed", range(6))
def test_random_chess960_games_equal_python_chess(seed: int) -> None:
    fen = chess.Board.from_chess960_pos(random.Random(seed).randrange(960)).fen()
    ours = Board(fen)
    play_randomly(seed, fen, chess960=ours.chess960, plies=60)


ENDINGS = [
    "8/8/8/4k3/8/3K4/8/7R w - - 0 1",
    "8/8/8/4k3/8/3K4/8/6BN w - - 90 80",
    "8/5k2/8/8/8/3K4/1q6/8 b - - 0 1",
    "8/8/8/4kb2/8/3KB3/8/8 w - - 95 1",
    "8/P6k/8/8/8/8/p6K/8 w - - 0 1",
]


@pytest.mark.parametrize("fen", ENDINGS)
def test_random_endings_equal_python_chess(fen: str) -> None:
    for seed in range(4):
        play_randomly(seed, fen, chess960=False, plies=130)


@pytest.mark.slow
def test_thousands_of_random_positions_equal_python_chess() -> None:
    positions = sum(play_randomly(seed, chess.STARTING_FEN, chess960=False, plies=300) for seed in range(100, 180))
    assert positions > 10_000


def test_positions_that_repeat_are_counted() -> None:
    board = Board()
    for uci in ["g1f3", "g8f6", "f3g1", "f6g8"]:
        board.push(uci)
    assert board.repetitions == 1
    for uci in ["g1f3", "g8f6", "f3g1", "f6g8"]:
        board.push(uci)
    assert board.repetitions == 2
    assert board.outcome() == ("1/2-1/2", "threefold repetition")


def test_castling_is_accepted_in_both_spellings() -> None:
    for spelling in ["e1g1", "e1h1"]:
        board = Board("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1")
        board.push(spelling)
        assert board.fen() == "r3k2r/8/8/8/8/8/8/R4RK1 b kq - 1 1"


def test_a_copy_goes_its_own_way() -> None:
    board = Board()
    other = board.copy()
    other.push("e2e4")
    assert board.fen() == ludus_chess.START_FEN
    assert other.fen() != board.fen()


@pytest.mark.parametrize(
    ("fen", "reason"),
    [
        ("", "four to six fields"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "exactly one king"),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1", "side to move"),
        ("rnbqkbnr/pppppppp/9/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "no piece"),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBN w KQkq - 0 1", "eight ranks"),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBN1 w KQkq - 0 1", "castling right"),
        ("4k3/8/8/8/8/8/8/P3K3 w - - 0 1", "first or last rank"),
        ("4k3/8/8/8/8/8/4R3/4K3 w - - 0 1", "not to move is in check"),
        ("4k3/8/8/8/8/8/8/4K3 w - e6 0 1", "passed"),
        ("4k3/8/8/8/8/8/8/4K3 w - - x 1", "halfmove clock"),
        ("QQQQQQQQ/QQ2k3/8/8/8/8/8/4K3 w - - 0 1", "eight pawns"),
    ],
)
def test_an_unsound_fen_is_refused_with_a_reason(fen: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Board(fen)


@pytest.mark.parametrize("uci", ["e2e5", "e7e5", "e2", "", "e2e4q", "0000", "z9e4", "e1g1"])
def test_an_illegal_move_is_refused_and_changes_nothing(uci: str) -> None:
    board = Board()
    with pytest.raises(ValueError, match="move"):
        board.push(uci)
    assert board.fen() == ludus_chess.START_FEN


def test_ambiguous_san_is_refused() -> None:
    board = Board("4k3/8/8/8/8/8/R6R/4K3 w - - 0 1")
    with pytest.raises(ValueError, match="ambiguous"):
        board.parse_san("Rd2")
    assert board.parse_san("Rad2") == "a2d2"


def test_policy_indices_name_every_legal_move_once() -> None:
    board = Board("r3k2r/1P6/8/8/8/8/1p6/R3K2R b KQkq - 0 1")
    indices = board.legal_indices()
    assert list(indices) == sorted(set(indices.tolist()))
    assert {board.move_of(int(i)) for i in indices} == set(board.legal_moves())
    assert ludus_chess.policy_moves()[board.index_of("e8g8")] == "e1h1"
    with pytest.raises(ValueError, match="no legal move"):
        board.push_index(0 if 0 not in indices else 1857)
