"""Frames between processes: whole or not at all, in order, within bounds."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.errors import ProtocolError
from ludus.runtime.channel import HEADER, Channel


class Note(msgspec.Struct, tag="note"):
    text: str


@contextmanager
def connected() -> Iterator[tuple[Channel[Note], Channel[Note]]]:
    left, right = socket.socketpair()
    with left, right:
        yield Channel(left, Note), Channel(right, Note)


@given(st.lists(st.tuples(st.text(max_size=50), st.binary(max_size=2000)), max_size=20))
def test_messages_arrive_in_order_with_their_blobs(items: list[tuple[str, bytes]]) -> None:
    with connected() as (left, right):
        got: list[tuple[str, bytes]] = []
        for text, blob in items:
            left.send(Note(text=text), blob)
            got += [(note.text, bytes(data)) for note, data in right.receive()]
        left.drain(1.0)
        while len(got) < len(items):
            got += [(note.text, bytes(data)) for note, data in right.wait(1.0)]
    assert got == items


def test_a_blob_larger_than_the_socket_buffer_arrives_whole() -> None:
    blob = bytes(range(256)) * 40_000
    with connected() as (left, right):
        left.send(Note(text="big"), blob)
        assert left.has_unsent
        frames: list[tuple[Note, memoryview]] = []
        while not frames:
            left.flush()
            frames = right.receive()
    assert bytes(frames[0][1]) == blob


def test_the_end_of_the_other_side_is_an_eof() -> None:
    with connected() as (left, right):
        left.send(Note(text="last words"))
        left.close()
        assert [note.text for note, _ in right.receive()] == ["last words"]
        with pytest.raises(EOFError):
            right.receive()


def test_waiting_ends_at_its_deadline() -> None:
    with connected() as (_, right):
        assert right.wait(0.05) == []


@pytest.mark.parametrize(
    "garbage",
    [
        HEADER.pack(2**31, 0),
        HEADER.pack(3, 2**60),
        HEADER.pack(4, 0) + b"\xc1\xc1\xc1\xc1",
        HEADER.pack(1, 0) + b"\x01",
    ],
)
def test_garbage_is_refused_before_it_is_believed(garbage: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(garbage)
        with pytest.raises(ProtocolError):
            Channel(right, Note).receive()
