"""Trainers on several machines find each other, let nobody else in, and notice when one is lost."""

import socket
import threading
from contextlib import suppress
from typing import Any

import pytest

from ludus.errors import WorkerError
from ludus.runtime import Channel, Stop
from ludus.train import meeting
from ludus.train.meeting import Meeting, Peers, has_ended, interface_of, join, own_address
from ludus.train.messages import MeetingPlace


def met(size: int = 3, *strangers: bytes) -> tuple[list[socket.socket], list[socket.socket]]:
    """Connections of all trainers, at trainer 0 and at the others; strangers come first."""
    gathering, theirs = Meeting(), {}
    place = gathering.place

    def come() -> None:
        for greeting in strangers:
            with socket.create_connection((place.host, place.port)) as stranger:
                stranger.sendall(greeting)
                assert stranger.recv(1) == b"", "nobody talks to it"
        for rank in reversed(range(1, size)):
            theirs[rank] = join(place, rank)

    coming = threading.Thread(target=come)
    coming.start()
    ours = gathering.await_all(size, lambda: None)
    coming.join()
    return ours, [theirs[rank] for rank in sorted(theirs)]


def test_trainers_are_known_by_rank_and_strangers_are_sent_away() -> None:
    ours, theirs = met(3, meeting.GREETING.pack(b"x" * 32, 1))
    for mine, other in zip(ours, theirs, strict=True):
        mine.sendall(b"1")
        assert other.recv(1) == b"1"
        mine.close()
        other.close()


def test_a_stranger_that_says_its_greeting_byte_by_byte_holds_nobody_up() -> None:
    gathering = Meeting()
    place = gathering.place
    with socket.create_connection((place.host, place.port)) as stranger:
        stranger.sendall(b"x")
        trainer = join(place, 1)
        said: list[None] = []
        (ours,) = gathering.await_all(2, lambda: said.append(stranger.sendall(b"x")))  # type: ignore[func-returns-value]
        stranger.settimeout(10.0)
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b"", "it is sent away when all are there"
        assert len(said) < 5
        trainer.close()
        ours.close()


def test_a_stranger_that_says_nothing_is_sent_away_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "GREETING_S", 0.1)
    ours, theirs = met(2, b"x")
    for sock in (*ours, *theirs):
        sock.close()


def test_of_a_trainer_that_comes_twice_the_later_connection_counts() -> None:
    gathering = Meeting()
    first, second = (join(gathering.place, 1) for _ in range(2))
    other = join(gathering.place, 2)
    ours = gathering.await_all(3, lambda: None)
    first.settimeout(10.0)
    assert first.recv(1) == b""
    ours[0].sendall(b"1")
    assert second.recv(1) == b"1"
    for sock in (*ours, first, second, other):
        sock.close()


def test_a_trainer_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "MEET_S", 0.1)
    with pytest.raises(WorkerError, match=r"trainer 1 of 2 did not come within 0\.1 s"):
        Meeting().await_all(2, lambda: None)


def test_where_nobody_waits_it_is_said_so() -> None:
    gathering = Meeting()
    place = gathering.place
    gathering.await_all(1, lambda: None)
    with pytest.raises(WorkerError, match=f"trainer 0 cannot be reached at {place.host}:{place.port}"):
        join(MeetingPlace(host=place.host, port=place.port, token=place.token), 1)


def test_a_lost_trainer_ends_the_process_and_another_error_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "LOSS_S", 0.1)
    ours, theirs = met(2)
    peers = Peers(ours)
    with pytest.raises(ValueError, match="mine"):
        peers.give_up(ValueError("mine"))
    theirs[0].close()
    assert has_ended(ours[0])
    with pytest.raises(SystemExit):
        peers.give_up(RuntimeError("connection closed by peer"))
    peers.end()


def test_a_large_blob_goes_to_another_machine_in_the_stream() -> None:
    ours, theirs = met(2)
    here: Channel[Any] = Channel(ours[0], Stop)
    there: Channel[Any] = Channel(theirs[0], Stop)
    blob = bytes(range(256)) * 8192
    sending = threading.Thread(target=lambda: (here.send(Stop(), blob), here.drain(30.0)))
    sending.start()
    ((_, found),) = there.wait(30.0)
    sending.join()
    assert bytes(found) == blob
    here.close()
    there.close()


def test_the_interface_is_that_of_the_address_or_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(meeting.ADDRESS, raising=False)
    assert own_address() == own_address("lo") == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"
    monkeypatch.setenv(meeting.ADDRESS, "192.0.2.77")
    assert own_address() == "192.0.2.77"
    with pytest.raises(WorkerError, match=r"no interface here has the address 192\.0\.2\.77; write one of .*lo"):
        interface_of(own_address())
    with pytest.raises(WorkerError, match=r"runtime\.interface: there is no nowhere0 with an IPv4 address here"):
        own_address("nowhere0")
