"""A state in pieces: put together by anybody, refused where a piece is missing, never in memory as a whole."""

from __future__ import annotations

import json
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ludus.errors import CorruptRecord
from ludus.storage.tensor_shards import Piece, TensorFolder, load_part, open_state, save_shard
from ludus.storage.tensors import RoundedTensors, load_tensors, save_tensors, stage_named

WEIGHT = np.arange(35, dtype=np.float32).reshape(7, 5)
BIAS = np.array([3.0], np.float32)


def piece(name: str, array: np.ndarray, start: int) -> Piece:
    offsets = (start, *[0] * (array.ndim - 1))
    return Piece(name=name, shape=array.shape, dtype=array.dtype.name, offsets=offsets, read=lambda: array)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state of two trainers; the second has nothing of the bias."""
    for number, rows in ((1, slice(0, 4)), (2, slice(4, 7))):
        bias = BIAS[:1] if number == 1 else BIAS[:0]
        steps = [piece("optimizer.steps", np.array([9]), 0)] if number == 1 else []
        parts = (piece("weights.w", WEIGHT[rows], rows.start), piece("weights.b", bias, number - 1))
        save_shard(tmp_path, number, [*parts, piece("optimizer.mu.w", 2 * WEIGHT[rows], rows.start), *steps])
    return tmp_path


def test_pieces_are_put_together(folder: Path) -> None:
    state = open_state(folder)
    assert set(state["weights"]) == {"w", "b"}
    np.testing.assert_array_equal(state["weights"]["w"], WEIGHT)
    np.testing.assert_array_equal(state["weights"]["b"], BIAS)
    np.testing.assert_array_equal(state["optimizer"].rows("mu.w", 2, 6), 2 * WEIGHT[2:6])
    assert int(state["optimizer"]["steps"]) == 9
    assert load_part(folder, "weights").keys() == {"w", "b"}


def test_whole_files_are_read_alike(tmp_path: Path) -> None:
    save_tensors(tmp_path / "weights.safetensors", {"w": WEIGHT})
    save_tensors(tmp_path / "optimizer.safetensors", {"mu.w": WEIGHT, "steps": np.array(3)})
    state = open_state(tmp_path)
    np.testing.assert_array_equal(state["weights"].rows("w", 3, 5), WEIGHT[3:5])
    assert int(state["optimizer"]["steps"]) == 3


def test_a_missing_piece_is_noticed(folder: Path) -> None:
    (folder / "shard-00002-model-00001-of-00001.safetensors").unlink()
    save_shard(folder, 2, [piece("weights.w", WEIGHT[5:], 5)])
    with pytest.raises(CorruptRecord, match=r"pieces of weights\.w are missing"):
        open_state(folder)


def test_a_folder_without_a_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord, match="holds no state"):
        open_state(tmp_path)


@pytest.mark.parametrize("field", [{"data_offsets": [0, 10_000]}, {"shape": [2, 2]}, {"shape": "x"}, {"dtype": "Q"}])
def test_a_header_that_lies_is_refused(tmp_path: Path, field: dict[str, object]) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **field}
    text = json.dumps({"w": entry}).encode()
    (tmp_path / "w.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(CorruptRecord, match=r"w\.safetensors"):
        TensorFolder([tmp_path / "w.safetensors"])


def test_no_more_than_two_tensors_are_in_memory(tmp_path: Path) -> None:
    count, rows, width = 12, 512, 1024
    largest = 4 * rows * width
    shape, dtype = (rows, width), "float32"
    made = partial(np.ones, shape, np.float32)
    pieces = [Piece(name=f"weights.{n}", shape=shape, dtype=dtype, offsets=(0, 0), read=made) for n in range(count)]
    tracemalloc.start()
    try:
        save_shard(tmp_path, 1, pieces)
        lazy = RoundedTensors(open_state(tmp_path)["weights"], besides="value_head.")
        stage_named(tmp_path / "model.safetensors", lazy, list(lazy), {"format": "pt"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * largest + 2_000_000, f"{peak / largest:.1f} tensors"
    assert (tmp_path / "model.safetensors").stat().st_size < count * largest // 2 + 10_000


def test_rounded_tensors_are_what_a_reader_of_bfloat16_finds(tmp_path: Path) -> None:
    exact = {"w": np.array([1.0, 1.00390625, 1.01171875, -3.14159, np.nan, np.inf], np.float32), "value_head.b": BIAS}
    rounded = RoundedTensors(exact, besides="value_head.")
    assert rounded["w"][:3].tolist() == [1.0, 1.0, 1.015625], "to nearest, to even in the middle"
    stage_named(tmp_path / "m.safetensors", rounded, list(exact), {})
    found = TensorFolder([tmp_path / "m.safetensors"])
    for name in exact:
        np.testing.assert_array_equal(found[name], rounded[name])


def test_named_tensors_are_written_as_all_at_once(tmp_path: Path) -> None:
    tensors = {"b": BIAS, "a": WEIGHT, "n": np.array(3), "h": np.ones(3, np.float16)}
    save_tensors(tmp_path / "one", tensors, {"k": "v"})
    stage_named(tmp_path / "two", tensors, list(tensors), {"k": "v"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert load_tensors(tmp_path / "two").keys() == tensors.keys()
