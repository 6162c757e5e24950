"""JSON lines that never stop a run."""

from __future__ import annotations

import json
import math
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.storage.filesystem import FileSystem, Piece
from ludus.storage.jsonl import JsonlWriter, read_jsonl, rotated

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    return {key: finite(item) for key, item in value.items()} if isinstance(value, dict) else value


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=4))
def test_records_come_back_with_null_for_what_is_not_finite(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("j") / "metrics.jsonl"
    with JsonlWriter(path) as writer:
        assert all(writer.write(record) for record in records)
    assert list(read_jsonl(path)) == [finite(record) for record in records]
    for line in path.read_bytes().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_numpy_numbers_are_numbers_and_strange_objects_are_text(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "m.jsonl") as writer:
        writer.write({"a": np.float32("nan"), "b": np.int64(3), "c": np.arange(2), "d": Path("x"), "e": np.float64(1)})
    assert list(read_jsonl(tmp_path / "m.jsonl")) == [{"a": None, "b": 3, "c": [0, 1], "d": "x", "e": 1.0}]


@pytest.mark.parametrize("tail", [b"{", b'{"a": 1}', b"\x00" * 100_000])
def test_torn_tail_is_cut_off_when_the_file_is_opened(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"n": 1}\n' + tail)
    assert list(read_jsonl(path)) == [{"n": 1}]
    with JsonlWriter(path) as writer:
        writer.write({"n": 2})
    assert path.read_bytes() == b'{"n": 1}\n{"n":2}\n'


def test_file_without_any_newline_starts_afresh(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b"torn")
    with JsonlWriter(tmp_path / "m.jsonl") as writer:
        writer.write({"n": 1})
    assert list(read_jsonl(tmp_path / "m.jsonl")) == [{"n": 1}]


def test_lines_that_are_no_objects_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b'{"n": 1}\nnot json\n[1]\n\xff\n{"n": 2}\n')
    assert list(read_jsonl(tmp_path / "m.jsonl")) == [{"n": 1}, {"n": 2}]
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []


class Cramped(FileSystem):
    """A disk with room for `room` more bytes."""

    def __init__(self) -> None:
        self.room = 20

    def append(self, descriptor: int, piece: Piece) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        written = super().append(descriptor, piece[: self.room])
        self.room -= written
        return written


def test_full_disk_costs_lines_but_never_raises_and_leaves_no_torn_line(tmp_path: Path) -> None:
    disk = Cramped()
    with JsonlWriter(tmp_path / "m.jsonl", fs=disk) as writer:
        kept = [writer.write({"number": number}) for number in range(5)]
        assert kept == [True, False, False, False, False]
        disk.room = 1000
        assert writer.write({"number": 5})
        assert writer.dropped == 4
    assert list(read_jsonl(tmp_path / "m.jsonl")) == [{"number": 0}, {"number": 5}]


def test_text_that_is_not_unicode_is_dropped_and_counted(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "m.jsonl") as writer:
        assert not writer.write({"text": "\ud800"})
        assert writer.dropped == 1


def test_directory_that_is_missing_costs_lines_until_it_is_there(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "later" / "m.jsonl") as writer:
        assert not writer.write({"n": 1})
        (tmp_path / "later").mkdir()
        assert writer.write({"n": 2})
    assert list(read_jsonl(tmp_path / "later" / "m.jsonl")) == [{"n": 2}]


def test_rotation_bounds_the_space_and_readers_see_both_halves_in_order(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with JsonlWriter(path, most_bytes=1000) as writer:
        for number in range(1000):
            writer.write({"number": number})
    assert path.stat().st_size + rotated(path).stat().st_size <= 2000
    numbers = [record["number"] for record in read_jsonl(path)]
    assert numbers == list(range(numbers[0], 1000))
    assert len(numbers) > 50
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.1.jsonl", "m.jsonl"]


def test_closed_writer_drops_what_still_comes(tmp_path: Path) -> None:
    writer = JsonlWriter(tmp_path / "m.jsonl")
    writer.close()
    writer.close()
    assert not writer.write({"n": 1})
    assert writer.dropped == 1
    assert (tmp_path / "m.jsonl").read_bytes() == b""


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "m.jsonl", most_bytes=10_000_000) as writer, ThreadPoolExecutor(4) as pool:
        kept = pool.map(lambda number: writer.write({"number": number, "text": "x" * 500}), range(400))
        assert all(kept)
    assert sorted(record["number"] for record in read_jsonl(tmp_path / "m.jsonl")) == list(range(400))


def test_a_line_of_any_length_takes_little_memory_to_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        file.write(b'{"n": 1}\n{"long": "')
        for _ in range(40):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n{"n": 2}\n' + b"y" * 5_000_000 + b'{"n": 3}\n{"n": 4}\n')
    tracemalloc.start()
    try:
        assert [record["n"] for record in read_jsonl(path)] == [1, 2, 4]
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
