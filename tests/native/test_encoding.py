"""Planes, policy indices and records: equal to an independent encoder, and to the files of the real engine."""

import itertools
import struct
from collections.abc import Iterable

import numpy as np
import pytest

chess = pytest.importorskip("chess")
ludus_chess = pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import Board, check_records, encode_game, upgrade_records  # noqa: E402
from ludus_chess.records import V6_DTYPE, V7_DTYPE  # noqa: E402
from tests.native import oracle  # noqa: E402
from tests.native.real_games import RealGame, real_games, real_move_lists, require_data  # noqa: E402

SIZES = {3: 8276, 4: 8292, 5: 8308, 6: 8356, 7: 8396}


def to_oracle(board: chess.Board, uci: str) -> chess.Move:
    """Castling in the files is king takes rook."""
    move = chess.Move.from_uci(uci)
    rook = board.piece_at(move.to_square)
    if not board.chess960 and rook is not None and rook.color == board.turn:
        move.to_square = chess.square(6 if move.to_square > move.from_square else 2, chess.square_rank(move.to_square))
    return move


def compare_game(start: chess.Board, moves: Iterable[str], formats: Iterable[int], limit: int = 10**9) -> int:
    """Compare planes and legal indices of each position of a game, in each format. Returns the number of positions."""
    theirs, ours = start.copy(), Board(start.fen())
    boards = [theirs.copy()]
    count = 0
    for uci in [*moves, None]:
        indices = sorted(oracle.policy_index(theirs, m) for m in theirs.legal_moves)
        assert ours.legal_indices().tolist() == indices, theirs.fen()
        for input_format in formats:
            expected, _ = oracle.encode(boards, input_format)
            np.testing.assert_array_equal(
                ours.encode(input_format=input_format), expected, f"{theirs.fen()} {input_format}"
            )
        count += 1
        if uci is None or count >= limit:
            break
        move = to_oracle(theirs, uci)
        assert ours.index_of(uci) == oracle.policy_index(theirs, move)
        ours.push(uci)
        theirs.push(move)
        boards.append(theirs.copy(stack=False))
    return count


def test_the_policy_is_the_1858_moves() -> None:
    moves = ludus_chess.policy_moves()
    assert moves == oracle.make_policy_moves()
    assert len(moves) == 1858


def test_planes_and_indices_equal_the_oracle_on_real_games() -> None:
    require_data()
    count = 0
    for number, moves in enumerate(real_move_lists()):
        count += compare_game(chess.Board(), moves, [oracle.FORMATS[number % 7]])
        if count > 1000:
            return
    pytest.fail("too few positions")


@pytest.mark.slow
def test_planes_and_indices_equal_the_oracle_on_ten_thousand_positions_in_every_format() -> None:
    require_data()
    count = sum(compare_game(chess.Board(), moves, oracle.FORMATS) for moves in real_move_lists())
    assert count >= 10_000


ODD_POSITIONS = [
    "8/8/8/4k3/8/3K4/8/7R w - - 0 1",
    "8/8/8/8/3k4/8/2K5/q7 b - - 3 1",
    "k7/8/2Q5/8/4K3/8/8/8 b - - 3 1",
    "4k3/8/8/8/8/5K2/6B1/n7 w - - 0 1",
    "8/8/3k4/8/8/2b2K2/5N2/8 w - - 0 1",
    "7k/8/8/4K3/8/8/1N4b1/8 w - - 0 1",
    "8/2k5/8/8/3pP3/8/5K2/8 b - e3 0 1",
    "8/5k2/8/1pPp4/8/8/1K6/8 w - b6 0 1",
]


@pytest.mark.parametrize("fen", ODD_POSITIONS)
def test_canonical_formats_equal_the_oracle_where_transforms_matter(fen: str) -> None:
    rng = np.random.default_rng(7)
    transforms = set()
    for _ in range(6):
        board = chess.Board(fen)
        moves = []
        for _ in range(30):
            legal = list(board.legal_moves)
            if not legal:
                break
            moves.append(legal[int(rng.integers(len(legal)))])
            board.push(moves[-1])
            transforms.add(oracle.choose_transform(board))
        compare_game(chess.Board(fen), [m.uci() for m in moves], oracle.FORMATS)
    assert len(transforms) > 1


def test_chess960_rooks_are_where_the_oracle_puts_them() -> None:
    for number in (0, 100, 700, 959):
        board = chess.Board.from_chess960_pos(number)
        start = board.copy()
        moves = []
        rng = np.random.default_rng(number)
        for _ in range(30):
            legal = list(board.legal_moves)
            moves.append(legal[int(rng.integers(len(legal)))])
            board.push(moves[-1])
        compare_game(start, [m.uci() for m in moves], oracle.FORMATS)


def rewrite(game: RealGame, input_format: int = 1) -> bytes:
    """The game's records again, from its moves and search results."""
    records = np.frombuffer(game.records, V6_DTYPE)
    board = Board()
    policies = []
    for record, uci in zip(records, game.moves, strict=True):
        indices = board.legal_indices()
        policies.append((indices, record["probabilities"][indices]))
        board.push(uci)
    assert board.outcome() is None or board.outcome()[0] == game.result
    values = {k: np.stack([records[f"{k}_{c}"] for c in "qdm"], axis=1) for k in ("root", "best", "played", "orig")}
    return encode_game(
        ludus_chess.START_FEN,
        game.moves,
        policies,
        game.result,
        **values,
        visits=records["visits"],
        best_indices=records["best_idx"],
        policy_kld=records["policy_kld"],
        best_proven=(records["invariance_info"] & 8) != 0,
        input_format=input_format,
    )


def test_a_replayed_game_is_valid_and_the_engines_file_byte_for_byte() -> None:
    require_data()
    positions = 0
    for game in real_games():
        assert check_records(game.records) is None, game.name
        assert rewrite(game) == game.records, game.name
        positions += len(game.moves)
    assert positions > 8000


@pytest.mark.parametrize("input_format", oracle.FORMATS)
def test_records_of_every_format_have_the_oracles_planes_and_pass_the_validator(input_format: int) -> None:
    require_data()
    game = max(itertools.islice(real_games(), 10), key=lambda g: len(g.moves))
    data = rewrite(game, input_format)
    assert check_records(data) is None
    records = np.frombuffer(data, V6_DTYPE)
    real = np.frombuffer(game.records, V6_DTYPE)
    boards = [chess.Board()]
    for i, (record, uci) in enumerate(zip(records, game.moves, strict=True)):
        board = boards[-1]
        expected, transform = oracle.encode(boards, input_format)
        bits = np.unpackbits(record["planes"].view(np.uint8).reshape(104, 8), axis=1).reshape(104, 8, 8)
        np.testing.assert_array_equal(bits, expected[:104].astype(np.uint8))
        if input_format >= 3:
            assert record["invariance_info"] & 7 == transform
            assert bool(record["invariance_info"] & 128) == (not board.turn)
        move = to_oracle(board, uci)
        assert record["played_idx"] == oracle.policy_index(board, move, transform)
        for m in board.legal_moves:
            p, q = oracle.policy_index(board, m, transform), oracle.policy_index(board, m)
            assert record["probabilities"][p] == real[i]["probabilities"][q]
        assert np.sum(record["probabilities"] >= 0) == board.legal_moves.count()
        following = board.copy(stack=False)
        following.push(move)
        boards.append(following)


def test_records_are_upgraded_with_the_targets_of_version_seven() -> None:
    require_data()
    game = next(real_games())
    old = np.frombuffer(game.records, V6_DTYPE)
    new = np.frombuffer(upgrade_records(game.records), V7_DTYPE)
    for name in set(V6_DTYPE.names or ()) - {"version", "q_st"}:
        np.testing.assert_array_equal(new[name], old[name])
    assert new["opp_played_idx"].tolist() == [*old["played_idx"][1:].tolist(), 65535]
    assert new["next_played_idx"].tolist() == [*old["played_idx"][2:].tolist(), 65535, 65535]
    q, d, theta = old["root_q"][-1], old["root_d"][-1], 5 / 6
    for i in range(len(old) - 1, -1, -1):
        if i < len(old) - 1:
            q = theta * -q + (1 - theta) * old["root_q"][i]
            d = theta * d + (1 - theta) * old["root_d"][i]
        assert new["q_st"][i] == pytest.approx(q, abs=1e-5)
        assert new["d_st"][i] == pytest.approx(d, abs=1e-5)


def downgrade(records: bytes, version: int) -> bytes:
    """The same game as an older engine wrote it."""
    out = b""
    for start in range(0, len(records), 8356):
        record = bytearray(records[start : start + 8356])
        (q,) = struct.unpack_from("<f", record, 8308)
        struct.pack_into("<b", record, 8279, int(q))
        struct.pack_into("<I", record, 0, version)
        body = bytes(record[:4]) + bytes(record[4 if version == 5 else 8 :])
        out += body[: SIZES[version]]
    return out


@pytest.mark.parametrize("version", [3, 4, 5])
def test_older_versions_become_version_seven(version: int) -> None:
    require_data()
    game = next(real_games())
    old = downgrade(game.records, version)
    assert check_records(old) is None
    real = np.frombuffer(upgrade_records(game.records), V7_DTYPE)
    new = np.frombuffer(upgrade_records(old), V7_DTYPE)
    for name in ("probabilities", "planes", "rule50_count", "castling_us_oo", "result_q", "result_d", "input_format"):
        np.testing.assert_array_equal(new[name], real[name])
    assert new["visits"].max() == 0
    assert np.isnan(new["orig_q"]).all()
    np.testing.assert_array_equal(np.isnan(new["root_q"]), version == 3)
    np.testing.assert_array_equal(np.isnan(new["best_m"]), version < 5)
    if version < 5:
        assert new["plies_left"].tolist() == list(range(len(new), 0, -1))


def fault(records: bytes, at: int, **fields: float) -> bytes:
    changed = np.frombuffer(records, V6_DTYPE).copy()
    for name, value in fields.items():
        changed[name][at] = value
    return changed.tobytes()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"best_q": 2.0}, "best_q is 2"),
        ({"root_q": float("nan")}, "root_q is nan"),
        ({"root_d": -0.5}, "root_d"),
        ({"plies_left": -3.0}, "plies_left"),
        ({"result_q": float("inf")}, "result_q"),
        ({"rule50_count": 101}, "rule50_count"),
        ({"castling_us_oo": 2}, "castling"),
        ({"side_to_move_or_enpassant": 3}, "side to move"),
        ({"input_format": 9}, "input format 9"),
        ({"input_format": 2**31}, "input format"),
        ({"played_idx": 1857}, "1857 is illegal"),
        ({"best_idx": 65535}, "65535 is illegal"),
        ({"version": 5}, "version 5 in a game of version 6"),
        ({"probabilities": 0.5}, "sum to"),
        ({"probabilities": -0.25}, "probability 0 is -0.25"),
        ({"planes": 0}, "does not follow"),
    ],
)
def test_a_fault_is_refused_with_its_record_and_reason(fields: dict[str, float], reason: str) -> None:
    require_data()
    found = check_records(fault(next(real_games()).records, 4, **fields))
    assert found is not None
    assert found[0] == 4
    assert reason in found[1]


def test_a_position_that_no_move_leads_to_is_refused() -> None:
    require_data()
    records = next(real_games()).records
    size = 8356
    skipped = records[: 3 * size] + records[5 * size :]
    index = int(np.frombuffer(records, V6_DTYPE)["played_idx"][2])
    assert check_records(skipped) == (3, f"the position does not follow from the one before it by index {index}")
    assert check_records(downgrade(skipped, 4)) == (3, "no legal move leads from the position before it to this one")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", (0, "no version, the game has 0 bytes")),
        (b"\x06\0\0", (0, "no version, the game has 3 bytes")),
        (b"\x09\0\0\0" * 4, (0, "version 9 is none of 3 to 7")),
        (b"\x06\0\0\0" * 4, (0, "cut off, 16 of 8356 bytes")),
    ],
)
def test_malformed_records_are_refused(data: bytes, problem: tuple[int, str]) -> None:
    assert check_records(data) == problem
    with pytest.raises(ValueError, match=problem[1].split(",")[0]):
        upgrade_records(data)


def test_random_bytes_never_crash_the_validator() -> None:
    rng = np.random.default_rng(3)
    for version, size in SIZES.items():
        for _ in range(20):
            data = rng.integers(0, 256, (2, size), dtype=np.uint8)
            data[:, :4] = [version, 0, 0, 0]
            assert check_records(data.tobytes()) is not None


def test_targets_that_are_no_game_are_refused() -> None:
    values = np.zeros((1, 3), np.float32)
    policy = (np.array([Board().index_of("e2e4")]), np.array([1.0]))
    good = {"root": values, "best": values, "played": values}
    start = ludus_chess.START_FEN
    assert len(encode_game(start, ["e2e4"], [policy], "1-0", **good)) == 8356
    with pytest.raises(ValueError, match="ply 0: move"):
        encode_game(start, ["e2e5"], [policy], "1-0", **good)
    with pytest.raises(ValueError, match="sum to"):
        encode_game(start, ["e2e4"], [(policy[0], policy[1] / 2)], "1-0", **good)
    with pytest.raises(ValueError, match="no legal move"):
        encode_game(start, ["e2e4"], [(np.array([1857]), policy[1])], "1-0", **good)
    with pytest.raises(ValueError, match="none of 1-0"):
        encode_game(start, ["e2e4"], [policy], "*", **good)
    with pytest.raises(ValueError, match="1 moves with 2"):
        encode_game(start, ["e2e4"], [policy, policy], "1-0", **good)
    with pytest.raises(ValueError, match="shape"):
        encode_game(start, ["e2e4"], [policy], "1-0", **{**good, "root": values[:, :2]})
    with pytest.raises(ValueError, match="input format"):
        encode_game(start, ["e2e4"], [policy], "1-0", **good, input_format=6)


def test_planes_are_written_where_the_caller_wants_them() -> None:
    batch = np.zeros((2, 112, 8, 8), np.float32)
    Board().encode(batch[1])
    np.testing.assert_array_equal(batch[1], Board().encode())
    for bad in (np.zeros((112, 8, 8)), np.zeros((112, 64), np.float32), batch[:, 0]):
        with pytest.raises(ValueError, match="out must"):
            Board().encode(bad)
