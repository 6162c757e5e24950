"""Rows hold what every other part can store."""

import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.tasks.rows import MOST_DEPTH, MOST_ROW_BYTES, Flaw, as_number, measure


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([1], "expected an object with fields, got a list"),
        ({"a": float("nan")}, "field a: nan is not a number that JSON has"),
        ({"a": {"b": [1, float("inf")]}}, "field a.b.1: inf"),
        ({"a": 2**63}, "field a: a number of more than 64 bits"),
        ({"a": "x\0"}, "field a: holds a NUL character"),
        ({"a": "\ud800"}, "field a: holds half of a character"),
        ({"\ud800": 1}, "holds half of a character"),
        ({1: "a"}, "a key that is not text"),
        ({"a": b"x"}, "field a: bytes is not JSON"),
        ({"a": datetime.date(2024, 1, 1)}, "field a: a date is not JSON"),
        ({"a": (1, 2)}, "field a: a tuple is not JSON"),
        (nested(MOST_DEPTH), "nested more than 16 levels deep"),
        ({"a": "x" * MOST_ROW_BYTES}, "larger than 4,194,304 bytes"),
        ({"a": [0] * (MOST_ROW_BYTES // 8 + 1)}, "larger than 4,194,304 bytes"),
    ],
)
def test_what_is_not_json_is_named_with_its_place(fields: Any, reason: str) -> None:
    with pytest.raises(Flaw) as caught:
        measure(fields)
    assert reason in str(caught.value)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Flaw, match="nested more than"):
        measure({"a": endless})


@given(
    st.dictionaries(
        st.text(), st.text() | st.integers() | st.floats() | st.lists(st.floats() | st.text() | st.none() | st.binary())
    )
)
def test_what_is_accepted_can_be_encoded(fields: dict[str, Any]) -> None:
    try:
        size = measure(fields)
    except Flaw:
        return
    assert msgspec.json.decode(msgspec.json.encode(fields)) == fields
    assert size > 0


def test_numbers_are_numbers_or_text_that_reads_as_one() -> None:
    assert [as_number(value) for value in (3, "4.5", " 6 ", "1e999", "x", True, None, [1], 10**400, "9" * 500)] == [
        3.0,
        4.5,
        6.0,
        *[None] * 7,
    ]
