"""lc0's planes (format 1, with and without a filled history) and policy indices beside lczerolens' own encoder.

Covered: input format 1 and the 1858 indices. Not covered by any package that we know: formats 2 to 5, 132 and 133.
"""

import importlib
import importlib.util
import sys
from types import ModuleType

import numpy as np
import pytest

chess = pytest.importorskip("chess")
pytest.importorskip("torch")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")
if (SPEC := importlib.util.find_spec("lczerolens")) is None:
    pytest.skip("lczerolens is not installed: make oracles", allow_module_level=True)

from ludus_chess import Board  # noqa: E402

FENS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 5 1",
    "8/PPP4k/8/8/8/8/4Kppp/8 w - - 0 1",
    "8/8/8/4k3/8/3K4/8/7R w - - 3 1",
]
FILLS = {"no": "classical_112", "always": "classical_112_repeated"}


@pytest.fixture
def codec(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """Its encoders alone: the package itself also imports what they do not need (torchvision)."""
    assert SPEC is not None
    bare = ModuleType("lczerolens")
    bare.__path__ = list(SPEC.submodule_search_locations or ())
    monkeypatch.setitem(sys.modules, "lczerolens", bare)
    return importlib.import_module("lczerolens._codec.input"), importlib.import_module("lczerolens._codec.policy")


@pytest.mark.parametrize("fen", FENS)
def test_planes_and_indices_equal_lczerolens(fen: str, codec: tuple[ModuleType, ModuleType]) -> None:
    inputs, policies = codec
    rng = np.random.default_rng(1)
    for _ in range(10):
        theirs, ours = chess.Board(fen), Board(fen)
        for _ in range(60):
            for fill, form in FILLS.items():
                wanted = inputs.encode_input(theirs, input_format=inputs.InputFormat(form)).numpy()
                wanted[109] /= 99  # The engine feeds plies, training a share.
                np.testing.assert_array_equal(ours.encode(history_fill=fill), wanted, theirs.fen())
            legal = list(theirs.legal_moves)
            if not legal:
                break
            assert sorted(policies.encode_move(theirs, move) for move in legal) == ours.legal_indices().tolist()
            move = legal[int(rng.integers(len(legal)))]
            assert ours.index_of(move.uci()) == policies.encode_move(theirs, move)
            theirs.push(move)
            ours.push(move.uci())
