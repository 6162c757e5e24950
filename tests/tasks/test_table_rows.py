"""Parquet files become rows; what is wrong with them is said in one sentence."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ludus.config import TasksetConfig
from ludus.errors import ConfigError
from ludus.tasks import Taskset, load_taskset
from ludus.tasks.rows import BadRow, Row
from ludus.tasks.table_rows import read_parquet


def save(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def load(path: Path, **settings: Any) -> Taskset:
    return load_taskset(TasksetConfig.model_validate({"path": str(path), **settings}))


def test_rows_come_in_order_across_batches_and_row_groups(tmp_path: Path) -> None:
    path = save(
        tmp_path / "x.parquet", {"prompt": [f"q{i % 7}" for i in range(1000)], "n": range(1000)}, row_group_size=300
    )
    rows = list(read_parquet(path))
    assert [row.line for row in rows] == list(range(1, 1001))
    assert rows[999] == Row(line=1000, fields={"prompt": "q5", "n": 999})


def test_only_the_columns_that_are_mapped_are_decoded(tmp_path: Path) -> None:
    path = save(tmp_path / "x.parquet", {"q": ["a"], "picture": [b"\x00\xff"], "a.b": ["c"], "s": [{"t": "u", "v": 1}]})
    taskset = load(path, fields={"prompt": "q", "answer": "a.b", "inner": "s.t"})
    assert taskset.rows == ({"prompt": "a", "answer": "c", "inner": "u"},)
    with pytest.raises(ConfigError, match=r"x.parquet:1: field picture: bytes is not JSON"):
        load(path)


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = save(tmp_path / "x.parquet", {"question": ["a"], "solution": ["b"]})
    with pytest.raises(ConfigError, match=r"no column query; it has question, solution"):
        load(path, fields={"prompt": "query"})


def test_values_that_python_cannot_have_cost_their_row(tmp_path: Path) -> None:
    texts = pa.array([b"fine", b"\xff", b"fine too"]).view(pa.string())
    path = save(tmp_path / "x.parquet", {"prompt": texts})
    found = list(read_parquet(path))
    assert [type(row) for row in found] == [Row, BadRow, Row]
    assert load(path).refusals[0].startswith(f"{path}:2: UnicodeDecodeError")


def test_numbers_that_are_none_cost_their_row(tmp_path: Path) -> None:
    path = save(tmp_path / "x.parquet", {"prompt": ["a", "b", "c"], "rate": [0.5, float("nan"), None]})
    taskset = load(path)
    assert taskset.refusals == (f"{path}:2: field rate: nan is not a number that JSON has",)
    assert taskset.rows[1] == {"prompt": "c", "rate": None}


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    path = save(tmp_path / "x.parquet", {"prompt": ["a", "b"]})
    whole = path.read_bytes()
    flipped = whole[:30] + bytes(byte ^ 0xFF for byte in whole[30:60]) + whole[60:]
    path.write_bytes({"cut": whole[:-9], "flipped": flipped, "empty": b"", "text": b'{"prompt": "a"}\n'}[damage])
    with pytest.raises(ConfigError, match=r"taskset x: .*x.parquet: cannot be read as Parquet: "):
        load(path)


def test_a_file_cut_at_any_length_is_refused_or_read(tmp_path: Path) -> None:
    path = save(tmp_path / "x.parquet", {"prompt": ["a", "b"]})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError):
            load(path)
