"""What clients are sent, when they read and when they do not."""

from __future__ import annotations

import os
import select
import threading

from ludus.daemon.client import MOST_NEWS, MOST_REPLIES, Outlet


def test_lines_arrive_in_order() -> None:
    read, write = os.pipe()
    outlet = Outlet(write, "test")
    outlet.tell(b"1\n")
    outlet.reply(b"2\n")
    outlet.tell(b"3\n")
    outlet.close()
    os.close(write)
    assert os.read(read, 100) == b"1\n2\n3\n"
    os.close(read)


def test_a_reader_that_sleeps_loses_old_news_and_no_reply() -> None:
    read, write = os.pipe()
    outlet = Outlet(write, "test")
    big = b"x" * 70_000 + b"\n"  # more than a pipe holds: the writer waits from here on
    outlet.tell(big)
    assert select.select([read], [], [], 60)[0]  # it has begun
    for number in range(3 * MOST_NEWS):
        outlet.tell(b"news %d\n" % number)
    outlet.reply(b"reply\n")
    assert outlet.dropped >= 2 * MOST_NEWS
    received = b""
    while b"reply\n" not in received:
        received += os.read(read, 65536)
    outlet.close()
    assert b"news %d\n" % (3 * MOST_NEWS - 1) in received
    assert b"news 0\n" not in received
    os.close(read)
    os.close(write)


def test_replies_wait_for_a_client_that_does_not_read_them() -> None:
    read, write = os.pipe()
    outlet = Outlet(write, "test")
    outlet.reply(b"x" * 70_000 + b"\n")
    sent = threading.Event()

    def flood() -> None:
        for _ in range(MOST_REPLIES + 10):
            outlet.reply(b"more\n")
        sent.set()

    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    assert not sent.wait(0.3)
    received = 0
    while received < 70_001 + 5 * (MOST_REPLIES + 10):
        received += len(os.read(read, 65536))
    assert sent.wait(10)
    outlet.close()
    os.close(read)
    os.close(write)


def test_a_reader_that_is_gone_costs_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    outlet = Outlet(write, "test")
    outlet.reply(b"to nobody\n")
    for _ in range(MOST_REPLIES + 10):
        outlet.reply(b"to nobody\n")
        outlet.tell(b"to nobody\n")
    outlet.close()
    assert outlet.is_gone
    os.close(write)
