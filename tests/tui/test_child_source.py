"""A daemon as a child: commands and replies, how it ended, and that it is never left behind. The children are small real programs."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable

from ludus.daemon.messages import Ack, EventNews, Failure, LogLine, Pause
from ludus.monitor.live_sources import ChildSource
from ludus.monitor.message_queue import MessageQueue, Note

POLITE = """
    import json, sys
    print("ready", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        reply = {"type": "ack", "payload": {"command": message["type"], "result": {}}, "id": message["id"]}
        print(json.dumps(reply), flush=True)
        if message["type"] == "shutdown":
            break
"""
STUBBORN = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("deaf", file=sys.stderr, flush=True)
    time.sleep(60)
"""


def child(program: str, graces_s: tuple[float, float, float] = (10.0, 10.0, 10.0)) -> ChildSource:
    return ChildSource([sys.executable, "-c", textwrap.dedent(program)], graces_s=graces_s)


def gather(message_queue: MessageQueue, is_enough: Callable[[list[Note]], bool]) -> list[Note]:
    notes, deadline = list[Note](), time.monotonic() + 20
    while not is_enough(notes):
        assert time.monotonic() < deadline, notes
        notes += message_queue.drain().notes
        time.sleep(0.01)
    return notes


def lines_of(notes: list[Note]) -> list[str]:
    return [note.what.line for note in notes if isinstance(note.what, LogLine)]


def test_commands_are_answered_the_log_is_shown_and_closing_asks_it_to_end() -> None:
    source, message_queue = child(POLITE), MessageQueue()
    source.start(message_queue)
    assert source.send(Pause()).result(20) == Ack(command="pause")
    assert source.connection.state == "live"
    assert source.close() == "the daemon has ended"
    assert source.connection.state == "ended"
    assert lines_of(gather(message_queue, lambda notes: len(lines_of(notes)) == 2)) == ["ready", "the daemon has ended"]
    late = source.send(Pause()).result(1)
    assert isinstance(late, Failure)
    assert "the daemon has ended" in late.message


def test_one_that_neither_listens_nor_minds_sigterm_is_killed_and_it_says_so() -> None:
    source, message_queue = child(STUBBORN, (0.2, 0.2, 10.0)), MessageQueue()
    source.start(message_queue)
    gather(message_queue, lambda notes: "deaf" in lines_of(notes))
    waiting = source.send(Pause())
    assert source.close() == "the daemon was killed by SIGKILL"
    assert isinstance(waiting.result(1), Failure)


def test_a_failure_is_told_with_its_code_and_the_end_of_the_log() -> None:
    source, message_queue = child("import sys; print('no such game', file=sys.stderr); sys.exit(3)"), MessageQueue()
    source.start(message_queue)
    gather(message_queue, lambda notes: "the daemon failed with exit code 3" in lines_of(notes))
    assert source.connection.words == "the daemon failed with exit code 3"
    assert source.last_log() == ["no such game"]


def test_hurrying_goes_on_to_the_next_way_at_once() -> None:
    source, message_queue = child("import time; time.sleep(60)", (60.0, 60.0, 60.0)), MessageQueue()
    source.start(message_queue)
    source.hurry()
    import threading

    closing = threading.Thread(target=source.close)
    closing.start()
    deadline = time.monotonic() + 20
    while closing.is_alive() and time.monotonic() < deadline:
        source.hurry()
        closing.join(0.05)
    assert source.connection.words in ("the daemon was killed by SIGTERM", "the daemon was killed by SIGKILL")


def test_a_flood_is_read_as_fast_as_it_comes_and_bounded() -> None:
    program = """
        import sys
        line = b'{"type":"event","payload":{"event":"tick","fields":{"n":12345}}}\\n' * 1000
        for _ in range(100):
            sys.stdout.buffer.write(line)
    """
    source, message_queue = child(program), MessageQueue()
    source.start(message_queue)
    deadline = time.monotonic() + 30
    while (news := message_queue.drain()).received < 100_001:
        assert len(news.notes) <= 1001
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert news.losses.skipped_in_all > 0
    assert not any(isinstance(note.what, EventNews) for note in message_queue.drain().notes)
    source.close()
