"""Only plain values cross between a solution and its tests."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.sandbox.inside.values import NotPlain, dump, encode, load, load_value

hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
plain = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(hashable, inner, max_size=4) | st.sets(hashable, max_size=4)
    ),
    max_leaves=12,
)


def typed(value: Any) -> Any:
    """A value with its types, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return dict, {repr(typed(key)): typed(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(typed(item)) for item in value)
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    return type(value), value


@given(plain)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    back = load_value(load(dump(encode(value))))
    assert typed(back) == typed(value)


def test_what_is_no_number_comes_back_too() -> None:
    assert math.isnan(load_value(load(dump(encode(float("nan"))))))
    assert load_value(load(dump(encode([math.inf, -math.inf])))) == [math.inf, -math.inf]


def test_subclasses_arrive_as_what_they_are_made_of() -> None:
    class Liar(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    point = namedtuple("point", "x y")(1, 2)
    values = [Liar(7), Counter("aab"), OrderedDict(a=1), point, bytearray(b"x")]
    back = load_value(load(dump(encode(values))))
    assert [type(value) for value in back] == [int, dict, dict, tuple, bytes]
    assert back[0] != 8


@pytest.mark.parametrize("value", [object(), len, {1: object()}, [iter([])], range(3)])
def test_other_objects_are_refused(value: Any) -> None:
    with pytest.raises(NotPlain):
        encode(value)


HOSTILE = [
    b"",
    b"not json\n",
    b"[" * 100_000,
    b'{"int": "x"}\n',
    b'{"float": 3}\n',
    b'{"unknown": []}\n',
    b'{"set": [[1]]}\n',
    b'{"dict": [[1]]}\n',
    b'{"dict": [[{"dict": []}, 1]]}\n',
    b'{"bytes": "zz"}\n',
    b'{"object": 0}\n',
    b'{"tuple": [], "set": []}\n',
    b"9" * 10_000 + b"\n",
    json.dumps({"tuple": "abc"}).encode(),
    b"[" * 500 + b"]" * 500,
    b"x" * (2 << 20),
]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: str(line[:20]))
def test_hostile_messages_are_refused(line: bytes) -> None:
    with pytest.raises(NotPlain):
        load_value(load(line))
