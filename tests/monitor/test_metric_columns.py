"""Metrics as columns: read on as the file grows, whatever the file holds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.monitor import metric_columns
from ludus.monitor.metric_columns import ColumnCache, MetricColumns
from ludus.storage.jsonl import rotated


def line(step: float, **values: object) -> bytes:
    return json.dumps({"time": 1000.0 + step, "step": step, **values}).encode() + b"\n"


def test_a_torn_last_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = line(2, loss=0.5)
    path.write_bytes(line(1, loss=1.0) + whole[:10])
    columns = MetricColumns(path)
    columns.refresh()
    assert columns.curve("loss")[2].tolist() == [1.0]
    path.write_bytes(line(1, loss=1.0) + whole)
    columns.refresh()
    assert columns.curve("loss")[2].tolist() == [1.0, 0.5]


def test_bad_lines_are_counted_and_hide_no_other(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    bad = b"no json\n[1]\n" + b'{"step": null}\n' + b"\xff\xfe\n" + b"{" * 5_000_000 + b"\n" + b"[" * 100_000 + b"\n"
    path.write_bytes(line(1, a=1) + bad + b'{"time":1,"step":2,"a":NaN,"b":"text","c":null}\n' + line(3, a=10**400))
    columns = MetricColumns(path)
    columns.refresh()
    assert columns.skipped_lines == 6
    assert columns.names() == ["a", "c"]
    steps, _, values = columns.curve("a")
    assert steps.tolist() == [1.0, 2.0, 3.0]
    assert values[0] == 1.0
    assert columns.curve("nothing")[0].tolist() == []


def test_steps_that_a_resumed_run_does_again_replace_those_before(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"".join(line(step, a=step) for step in (1, 2, 3)) + line(0, b=5) + line(2, a=20) + line(4, a=40))
    columns = MetricColumns(path)
    columns.refresh()
    assert columns.curve("a")[0].tolist() == [1.0, 2.0, 4.0]
    assert columns.curve("a")[2].tolist() == [1.0, 20.0, 40.0]
    assert columns.curve("b")[0].tolist() == [0.0]


def test_a_rotation_is_read_on_and_another_run_in_its_place_too(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(line(1, a=1))
    columns = MetricColumns(path)
    columns.refresh()
    path.rename(rotated(path))
    path.write_bytes(line(2, a=2))
    columns.refresh()
    assert columns.curve("a")[2].tolist() == [1.0, 2.0]
    rotated(path).unlink()
    path.unlink()
    columns.refresh()
    assert columns.names() == []


def test_memory_is_bounded_over_all_runs(tmp_path: Path) -> None:
    cache = ColumnCache(most_points=150)
    for name in "abc":
        (tmp_path / name).write_bytes(b"".join(line(step, x=step) for step in range(100)))
        assert len(cache.curves(tmp_path / name, ["x"])["x"][0]) == 100
    assert len(cache._kept) == 1
    assert len(cache.curves(tmp_path / "a", ["x"])["x"][0]) == 100


LINES = st.lists(
    st.sampled_from(
        [
            line(1, a=1),
            line(2, a=2, b=3.5),
            line(3, b=None),
            line(4, a=True),
            line(5, a=10**30, c=0),
            b'{"a":7,"step":6}\n',
            b'{"step":7,"a":"text","b":1}\n',
            b'{"time":1,"step":8,"a":NaN}\n',
            b'{"time":1,"step":null,"a":1}\n',
            b"garbage\n",
            b"\xff\n",
            b"{" * 300 + b"\n",
        ]
    ),
    max_size=30,
)


@given(LINES, st.integers(1, 400), st.integers(0, 30))
def test_many_lines_at_once_give_what_each_would_give(lines: list[bytes], block: int, torn: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        path.write_bytes(b"".join(lines) + line(9, a=9)[:torn])
        found = []
        for size, takes_many in ((block, True), (1 << 20, True), (1 << 20, False)):
            patch.setattr(metric_columns, "BLOCK_BYTES", size)
            columns = MetricColumns(path)
            if not takes_many:
                columns._take_block = lambda lines: False  # type: ignore[method-assign]
            columns.refresh()
            found.append((columns, {name: columns.curve(name) for name in columns.names()}))
        for columns, curves in found[:2]:
            assert columns.skipped_lines == found[2][0].skipped_lines
            assert curves.keys() == found[2][1].keys()
            for name, parts in curves.items():
                for part, expected in zip(parts, found[2][1][name], strict=True):
                    np.testing.assert_array_equal(part, expected)
