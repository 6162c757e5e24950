"""Bytes to lines, whatever the pieces they come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ludus.monitor.lines import LineSplitter


@given(st.lists(st.binary(max_size=12), max_size=20), st.data())
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    lines = [line.replace(b"\n", b"x") for line in lines]
    stream, splitter, found = b"".join(line + b"\n" for line in lines), LineSplitter(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert found == lines
    assert splitter.end() == []


def test_a_line_that_never_ends_costs_no_memory_and_the_next_one_is_read() -> None:
    splitter = LineSplitter(most_bytes=100)
    for _ in range(1000):
        assert splitter.feed(b"x" * 90) == []
        assert len(splitter._begun) <= 100
    assert splitter.feed(b"x\nshort\n" + b"y" * 101 + b"\nlast") == [b"short"]
    assert splitter.end() == [b"last"]
    assert splitter.too_long == 2
