"""F19, the part of storage: weights that lie or that would run code. Refused within a second, in little memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.errors import CorruptRecord
from ludus.storage.tensors import load_metadata, load_tensors


def with_header(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def tensor(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"w": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch /tmp/ludus-bomb",)


def torch_archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()))
    return target.getvalue()


def object_array() -> bytes:
    target = io.BytesIO()
    np.save(target, np.array([Bomb()], object), allow_pickle=True)
    return target.getvalue()


FILES = {
    "nothing": b"",
    "seven bytes": b"1234567",
    "pickle bomb": pickle.dumps(Bomb()),
    "torch archive": torch_archive(),
    "object array": object_array(),
    "header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "header longer than the file": struct.pack("<Q", 1000) + b"{}",
    "header of 8 GB of nothing": struct.pack("<Q", 8 << 30),
    "header that is no JSON": with_header(b"not json"),
    "header that is a list": with_header(b"[]"),
    "header that is deeply nested": with_header(b"[" * 500_000),
    "metadata that is a list": with_header({"__metadata__": [1]}),
    "offsets beyond the end": with_header(tensor(), bytes(4)),
    "huge shape": with_header(tensor(shape=(2**40,), offsets=(0, 2**42)), bytes(8)),
    "shape that overflows": with_header(tensor(shape=(2**32, 2**32, 2), offsets=(0, 8)), bytes(8)),
    "shape that disagrees": with_header(tensor(shape=(3,)), bytes(8)),
    "negative shape": with_header(tensor(shape=(-2,)), bytes(8)),
    "offsets backwards": with_header(tensor(offsets=(8, 0)), bytes(8)),
    "overlapping": with_header({**tensor(), "v": tensor()["w"]}, bytes(8)),
    "hole": with_header(tensor(offsets=(8, 16)), bytes(16)),
    "bytes behind": with_header(tensor(), bytes(80)),
    "unknown dtype": with_header(tensor(dtype="OBJECT"), bytes(8)),
    "missing fields": with_header({"w": {"dtype": "F32"}}, bytes(8)),
    "not UTF-8": with_header(b'{"\xff": 1}'),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_file_is_a_corrupt_record_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(FILES[name])
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(CorruptRecord, match=r"weights\.safetensors"):
        load_tensors(path)
    assert time.monotonic() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256_000
    assert not Path("/tmp/ludus-bomb").exists()


def test_sparse_file_with_an_honest_length_and_a_lying_header_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 7_000_000_000))
        file.truncate(8_000_000_000)
    started = time.monotonic()
    for load in (load_tensors, load_metadata):
        with pytest.raises(CorruptRecord):
            load(path)
    assert time.monotonic() - started < 1


def test_missing_file_is_a_corrupt_record(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord):
        load_tensors(tmp_path / "none")


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    whole = with_header(tensor(), bytes(8))
    for length in range(len(whole)):
        (tmp_path / "w").write_bytes(whole[:length])
        with pytest.raises(CorruptRecord):
            load_tensors(tmp_path / "w")
    (tmp_path / "w").write_bytes(whole)
    assert load_tensors(tmp_path / "w")["w"].tolist() == [0, 0]
