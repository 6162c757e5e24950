"""A real network of lc0, imported: the same policies and values as the real engine's, and the same file written back."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

chess = pytest.importorskip("chess")

from ludus.chess.lc0_format import Lc0Network, network_bytes, parse_network, read_network, write_network  # noqa: E402
from ludus.chess.networks import policy_moves  # noqa: E402
from ludus.policies.networks import PolicyNetwork  # noqa: E402

DATA = Path(__file__).parents[2].parent / "shared" / "data"
FILE, REFERENCE = DATA / "maia-1100.pb.gz", DATA / "maia-1100.reference.json"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason=f"{FILE} is not there")
PIECES = (chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING)


@cache
def maia() -> Lc0Network:
    return read_network(FILE)


def planes_of(moves: list[str]) -> tuple[NDArray[np.float32], Any]:
    """lc0's 112 planes after some moves from the start position, by python-chess alone."""
    board, boards = chess.Board(), [chess.Board()]
    for move in moves:
        board.push(board.parse_uci(move))
        boards.append(board.copy())
    us = board.turn
    planes = np.zeros((112, 8, 8), np.float32)
    for step, seen in enumerate(reversed(boards[-8:])):
        for side, colour in enumerate((us, not us)):
            for piece, kind in enumerate(PIECES):
                for square in seen.pieces(kind, colour):
                    square = square if us == chess.WHITE else chess.square_mirror(square)
                    planes[step * 13 + side * 6 + piece, square // 8, square % 8] = 1
        planes[step * 13 + 12] = float(seen.is_repetition(2))
    for place, right in enumerate(
        (
            board.has_queenside_castling_rights(us),
            board.has_kingside_castling_rights(us),
            board.has_queenside_castling_rights(not us),
            board.has_kingside_castling_rights(not us),
        )
    ):
        planes[104 + place] = float(right)
    planes[108], planes[109], planes[111] = float(us == chess.BLACK), board.halfmove_clock / 99, 1.0
    return planes, board


def index_of(move: str, board: Any) -> int:
    """Place of a move in the policy; castling is the king taking its rook."""
    found = chess.Move.from_uci(move)
    flip = (lambda square: square) if board.turn == chess.WHITE else chess.square_mirror
    if found.promotion in (None, chess.KNIGHT):
        return INDICES[flip(found.from_square), flip(found.to_square), ""]
    return INDICES[flip(found.from_square), flip(found.to_square), chess.piece_symbol(found.promotion)]


INDICES = {tuple(move): place for place, move in enumerate(policy_moves())}


def test_policies_and_values_are_the_engines() -> None:
    positions = json.loads(REFERENCE.read_text())["positions"]
    assert len(positions) == 60
    seen = [planes_of(position["moves"].split()) for position in positions]
    network = PolicyNetwork(maia().config, observation_shape=(112, 8, 8), actions=1858, layout="channels_first")
    planes = np.stack([each for each, _ in seen])
    logits, values = (np.asarray(x) for x in jax.jit(network.apply)(maia().weights, planes))
    outputs = jax.jit(lambda weights, planes: network.module(weights).outputs(planes))
    wdl = np.exp(np.asarray(outputs(maia().weights, np.moveaxis(planes, 1, -1)).value["winner"]))
    wdl /= wdl.sum(-1, keepdims=True)
    compared = 0
    for position, (_, board), row, value, odds in zip(positions, seen, logits, values, wdl, strict=True):
        names = list(position["policy"])
        theirs = np.array([position["policy"][name] for name in names])
        ours = np.exp(row[[index_of(name, board) for name in names]])
        ours /= ours.sum()
        # The engine keeps a policy in 16 bits, and the reference is rounded to 0.01 %.
        np.testing.assert_allclose(ours, theirs, rtol=4e-3, atol=1e-4)
        first, second = np.sort(theirs)[::-1][:2]
        if first - second > 0.01:
            compared += 1
            assert names[int(ours.argmax())] == names[int(theirs.argmax())]
        assert abs(value - position["v"]) < 1e-3
        assert abs(odds[1] - position["d"]) < 5e-3
    assert compared > 50


def test_written_back_the_file_has_the_same_bytes(tmp_path: Path) -> None:
    original, net = gzip.decompress(FILE.read_bytes()), maia()
    assert network_bytes(net.config, net.weights, like=net.message) == original
    write_network(tmp_path / "again.pb.gz", net.config, net.weights, like=net.message)
    again = read_network(tmp_path / "again.pb.gz")
    assert gzip.decompress((tmp_path / "again.pb.gz").read_bytes()) == original
    assert all(np.array_equal(again.weights[name], value) for name, value in net.weights.items())
    assert [path.name for path in tmp_path.iterdir()] == ["again.pb.gz"]


def test_a_changed_layer_alone_changes_in_the_file() -> None:
    net = maia()
    weights = {**net.weights, "value.winner.wdl.bias": net.weights["value.winner.wdl.bias"] + 1.0}
    written = network_bytes(net.config, weights, like=net.message)
    found = parse_network(written)
    changed = [name for name, value in net.weights.items() if not np.array_equal(found.weights[name], value)]
    assert changed == ["value.winner.wdl.bias"]
    np.testing.assert_allclose(found.weights[changed[0]], weights[changed[0]], atol=1e-4)
