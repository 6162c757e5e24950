"""Lines of a file become rows, or are refused with their number; nothing else happens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.errors import ConfigError
from ludus.tasks import sources
from ludus.tasks.rows import MOST_ROW_BYTES, BadRow, Row
from ludus.tasks.sources import read_json_lines

Write = Callable[..., Path]


def test_every_line_is_a_row_with_its_number(write: Write) -> None:
    path = write([{"prompt": "a"}, b"", b"  \r", {"prompt": "ä\u2028b", "n": [1, 2.5, None, True]}])
    assert list(read_json_lines(path)) == [
        Row(line=1, fields={"prompt": "a"}),
        Row(line=4, fields={"prompt": "ä\u2028b", "n": [1, 2.5, None, True]}),
    ]


def test_a_byte_order_mark_and_a_missing_last_newline_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n{"prompt": "b"}')
    assert [row.line for row in read_json_lines(path) if isinstance(row, Row)] == [1, 2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON: Expecting value at column 1"),
        (b'{"prompt": "a"', "not JSON: Expecting ',' delimiter"),
        (b'{"prompt": "a"} {"prompt": "b"}', "not JSON: Extra data at column 17"),
        (b"[1, 2]", "expected an object in braces, got a list"),
        (b"null", "expected an object in braces, got null"),
        (b'{"prompt": "a", "prompt": "b"}', 'key "prompt" stands twice'),
        (b'{"a": {"b": 1, "b": 2}}', 'key "b" stands twice'),
        (b'{"a": NaN}', "NaN is not a number that JSON has"),
        (b'{"a": -Infinity}', "-Infinity is not a number that JSON has"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a": "\xff"}', "not UTF-8 text (byte 0xff at 8)"),
        (b'{"a": "\x00"}', "not JSON: Invalid control character"),
        (b'{"a": ' + b"[" * 100_000, "nested too deep"),
        (b'{"a": "' + b"x" * MOST_ROW_BYTES + b'"}', "longer than 4,194,304 bytes"),
    ],
)
def test_what_is_not_one_sound_object_is_refused_and_the_rest_is_read(write: Write, line: bytes, reason: str) -> None:
    found = list(read_json_lines(write([{"prompt": "a"}, line, {"prompt": "b"}])))
    assert [type(row) for row in found] == [Row, BadRow, Row]
    assert isinstance(found[1], BadRow)
    assert found[1].line == 2
    assert reason in found[1].reason
    assert found[2].line == 3


def test_a_line_without_end_ends_the_reading(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_SKIPPED_BYTES", 2**20)
    with pytest.raises(ConfigError, match=r"train.jsonl:2: a line of more than 1,048,576 bytes"):
        list(read_json_lines(write([{"prompt": "a"}, b"x" * (MOST_ROW_BYTES + 3 * 2**20)])))


ROWS = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)  # fmt: skip


@given(rows=st.lists(ROWS, max_size=5))
def test_what_was_written_is_read(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("rows") / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row.fields for row in read_json_lines(path) if isinstance(row, Row)] == rows


@given(lines=st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_rows_or_refusals(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("rows") / "x.jsonl"
    path.write_bytes(b"\n".join(lines))
    for found in read_json_lines(path):
        assert found.line >= 1
