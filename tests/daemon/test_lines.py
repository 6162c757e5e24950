"""Lines of any size with bounded memory."""

from __future__ import annotations

import os
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.daemon.protocol import LineSplitter, TooLong, read_lines


def lines_of(data: bytes, *, most_bytes: int = 100) -> list[bytes | TooLong]:
    read, write = os.pipe()

    def send() -> None:
        os.write(write, data) if len(data) < 60_000 else os.writev(write, [data])
        os.close(write)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        return list(read_lines(read, most_bytes=most_bytes))
    finally:
        sender.join()
        os.close(read)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\n\nb", [b"a\r", b"", b"b"]),
        (b"x" * 100 + b"\n", [b"x" * 100]),
    ],
)
def test_every_line_comes_once_in_order(data: bytes, expected: list[bytes]) -> None:
    assert lines_of(data) == expected


def test_a_line_that_is_too_long_is_one_event_and_what_follows_is_read() -> None:
    found = lines_of(b"a" * 101 + b"\nok\n" + b"b" * 5000)
    assert found == [TooLong(101, b"a" * 101, b"a" * 101), b"ok", TooLong(5000, b"b" * 4096, b"b" * 4096)]


def test_a_line_of_a_hundred_megabytes_is_never_held() -> None:
    read, write = os.pipe()

    def send() -> None:
        for _ in range(1600):
            os.write(write, b"y" * 65536)
        os.write(write, b"\nafter\n")
        os.close(write)

    sender = threading.Thread(target=send)
    tracemalloc.start()
    sender.start()
    found = list(read_lines(read))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sender.join()
    os.close(read)
    assert isinstance(found[0], TooLong)
    assert found[0].size == 1600 * 65536
    assert found[1:] == [b"after"]
    assert most < 6_000_000


@given(st.lists(st.binary(max_size=12), max_size=20), st.data())
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    lines = [line.replace(b"\n", b"x") for line in lines]
    stream, splitter = b"".join(line + b"\n" for line in lines), LineSplitter()
    found: list[bytes | TooLong] = []
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
    found = splitter.feed(b"x\nshort\n" + b"y" * 101 + b"\nlast")
    assert [line if isinstance(line, bytes) else line.size for line in found] == [90_001, b"short", 101]
    assert splitter.end() == [b"last"]
