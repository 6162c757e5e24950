"""Frames between processes: whole or not at all, in order, within bounds."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.errors import ProtocolError
from ludus.runtime.channel import HEADER, Channel

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Note(msgspec.Struct, tag="note"):
    text: str


BODY = msgspec.msgpack.encode(Note(text="x"))


def header(message_bytes: int, blob_bytes: int, in_file: bool, incarnation: int = 0, number: int = 0) -> bytes:
    return HEADER.pack(message_bytes, blob_bytes, in_file, incarnation, number)


def frame(text: str, number: int, incarnation: int = 0, blob: bytes = b"") -> bytes:
    body = msgspec.msgpack.encode(Note(text=text))
    return header(len(body), len(blob), False, incarnation, number) + body + blob


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


BIG = bytes(range(256)) * 40_000


def test_a_large_blob_is_away_at_once_whoever_reads_it() -> None:
    with connected() as (left, right):
        for number in range(3):
            left.send(Note(text=str(number)), BIG)
        assert not left.has_unsent
        left.send(Note(text="small"), b"small")
        frames = right.receive()
    assert [(note.text, bytes(blob)) for note, blob in frames] == [
        ("0", BIG),
        ("1", BIG),
        ("2", BIG),
        ("small", b"small"),
    ]


def test_without_files_in_memory_a_large_blob_goes_through_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "memfd_create", refuse)
    with connected() as (left, right):
        left.send(Note(text="big"), BIG)
        assert left.has_unsent
        frames: list[tuple[Note, memoryview]] = []
        while not frames:
            left.flush()
            frames = right.receive()
    assert bytes(frames[0][1]) == BIG


def test_no_descriptor_is_left_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    with connected() as (left, right):
        left.send(Note(text="read"), BIG)
        assert len(right.receive()) == 1
        left.send(Note(text="never read"), BIG)
        right._receive_some()
        right.close()
        left.close()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("size", "seals"), [(99, SEALS), (101, SEALS), (100, 0), (100, fcntl.F_SEAL_WRITE)])
def test_a_file_that_could_change_or_has_another_size_is_refused(size: int, seals: int) -> None:
    file = os.memfd_create("lie", os.MFD_ALLOW_SEALING)
    os.write(file, bytes(size))
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    left, right = socket.socketpair()
    with left, right:
        socket.send_fds(left, [header(len(BODY), 100, True) + BODY], [file])
        os.close(file)
        with pytest.raises(ProtocolError, match="not sealed, or has not 100 bytes"):
            Channel(right, Note).receive()


def test_other_descriptors_than_files_in_memory_are_refused() -> None:
    left, right = socket.socketpair()
    with left, right:
        socket.send_fds(left, [header(len(BODY), 100, True) + BODY], [left.fileno()])
        with pytest.raises(ProtocolError, match="cannot be read"):
            Channel(right, Note).receive()


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
        header(2**31, 0, False),
        header(3, 2**60, False),
        header(4, 0, False) + b"\xc1\xc1\xc1\xc1",
        header(1, 0, False) + b"\x01",
        header(len(BODY), 100, True) + BODY,
    ],
)
def test_garbage_is_refused_before_it_is_believed(garbage: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(garbage)
        with pytest.raises(ProtocolError):
            Channel(right, Note).receive()


def test_a_frame_that_comes_again_is_dropped_and_counted() -> None:
    left, right = socket.socketpair()
    with left, right:
        channel: Channel[Note] = Channel(right, Note)
        left.sendall(
            frame("a", 0) + frame("b", 1, blob=b"rows") + frame("b", 1, blob=b"rows") + frame("a", 0) + frame("c", 2)
        )
        assert [note.text for note, _ in channel.wait(1.0)] == ["a", "b", "c"]
        assert channel.dropped == 2


def test_frames_of_an_earlier_incarnation_are_dropped_and_counted() -> None:
    left, right = socket.socketpair()
    with left, right:
        channel: Channel[Note] = Channel(right, Note, incarnation=2)
        left.sendall(frame("old", 0, 1) + frame("new", 0, 2) + frame("old", 7, 1) + frame("newer", 1, 2))
        assert [note.text for note, _ in channel.wait(1.0)] == ["new", "newer"]
        assert channel.dropped == 2


def test_a_dropped_frame_leaves_no_descriptor_and_its_successor_has_its_own_file() -> None:
    left, right = socket.socketpair()
    with left, right:
        before = set(os.listdir("/proc/self/fd"))
        old: Channel[Note] = Channel(left, Note, incarnation=1)
        new: Channel[Note] = Channel(right, Note, incarnation=2)
        old.send(Note(text="old"), BIG)
        assert new.wait(0.0) == []
        Channel(left, Note, incarnation=2).send(Note(text="new"), BIG[::-1])
        ((note, blob),) = new.wait(1.0)
        assert (note.text, bytes(blob)) == ("new", BIG[::-1])
        del blob
        assert set(os.listdir("/proc/self/fd")) == before


def test_a_missing_frame_is_noticed() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(frame("a", 0) + frame("c", 2))
        with pytest.raises(ProtocolError, match="frame 1 is missing: 2 came"):
            Channel(right, Note).receive()
