"""Tensors on disk: they come back bit for bit, and the safetensors library agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from ludus.errors import StorageError
from ludus.storage.tensors import load_metadata, load_tensors, save_tensors, tensors_hash

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
arrays = st.sampled_from(DTYPES).flatmap(
    lambda code: hnp.arrays(np.dtype(code), hnp.array_shapes(min_dims=0, min_side=0))
)


def identical(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "__metadata__"), arrays, max_size=5))
def test_any_arrays_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("t") / "x.safetensors"
    save_tensors(path, tensors)
    loaded = load_tensors(path)
    assert loaded.keys() == tensors.keys()
    assert all(identical(loaded[name], tensors[name]) for name in tensors)
    assert tensors_hash(loaded) == tensors_hash(tensors)


def example() -> dict[str, NDArray[Any]]:
    return {
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.float32),
        "kernel": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "mask": np.array([True, False, True]),
        "big-endian": np.arange(3, dtype=">f8"),
    }


def test_library_reads_what_we_write_and_we_read_what_it_writes(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    save_tensors(ours, example(), {"step": "12"})
    loaded = safetensors.numpy.load_file(ours)
    assert all(np.array_equal(loaded[name], array) for name, array in example().items())
    plain = {name: np.ascontiguousarray(array) for name, array in example().items() if name != "big-endian"}
    safetensors.numpy.save_file(plain, theirs, {"step": "12"})
    assert tensors_hash(load_tensors(theirs)) == tensors_hash(plain)
    assert load_metadata(ours) == load_metadata(theirs) == {"step": "12"}


def test_file_depends_on_contents_not_on_order(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", example())
    save_tensors(tmp_path / "b", dict(reversed(example().items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_hash_sees_name_dtype_shape_and_every_bit() -> None:
    base = np.zeros(4, np.float32)
    variants = [
        {"a": base},
        {"b": base},
        {"a": base.astype(np.int32)},
        {"a": base.reshape(2, 2)},
        {"a": -base},
        {"a": base, "b": base},
    ]
    assert len({tensors_hash(variant) for variant in variants}) == len(variants)
    assert tensors_hash({"x": base, "y": base}) == tensors_hash({"y": base.copy(), "x": base})


def test_objects_are_refused_with_the_name_of_the_tensor(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="'bad' has dtype object"):
        save_tensors(tmp_path / "x", {"bad": np.array([None])})
    assert not (tmp_path / "x").exists()
