"""A flood leaves a bounded heap, the newest state and an honest count."""

from __future__ import annotations

from ludus.daemon.messages import Ack, EventNews, Failure, LogLine, ProgressNews, Status, Warned
from ludus.daemon.protocol import MessageId, TooLong, write_message
from ludus.monitor import message_queue as intakes
from ludus.monitor.message_queue import MOST_BYTES, MOST_MESSAGES, MessageQueue, Reply


def test_of_a_state_only_the_newest_is_kept_and_read() -> None:
    message_queue = MessageQueue()
    message_queue.take_lines(write_message(Status(stage="TRAINING", steps=step)) for step in range(5000))
    news = message_queue.drain()
    assert [status.steps for status in news.states.values() if isinstance(status, Status)] == [4999]
    assert news.losses.skipped_in_all == 0
    assert message_queue.drain().states == {}


def test_a_flood_is_bounded_and_what_is_lost_is_counted_and_does_not_push_out_other_kinds() -> None:
    message_queue = MessageQueue()
    message_queue.take([Warned(message="look")])
    message_queue.take_lines(write_message(EventNews(event=f"e{number}")) for number in range(10_000))
    news = message_queue.drain()
    events = [note.what.event for note in news.notes if isinstance(note.what, EventNews)]
    assert events == [f"e{number}" for number in range(10_000 - MOST_MESSAGES, 10_000)]
    assert news.losses.skipped == {"event": 10_000 - MOST_MESSAGES}
    assert isinstance(news.notes[0].what, Warned)
    assert news.received == 10_001


def test_large_messages_are_bounded_by_their_bytes() -> None:
    message_queue = MessageQueue()
    line = write_message(LogLine(line="x" * 900_000))
    for _ in range(50):
        message_queue.take_lines([line])
        assert sum(queue.size_bytes for queue in message_queue._queues.values()) <= MOST_BYTES
    news = message_queue.drain()
    assert len(news.notes) == MOST_BYTES // len(line)
    assert news.losses.skipped_in_all == 50 - len(news.notes)


def test_garbage_is_counted_and_never_raises() -> None:
    message_queue = MessageQueue()
    message_queue.take_lines(
        [
            b"not json",
            b'{"type": 7}',
            b'{"type":"status","payload":{"stage":"NO SUCH STAGE"}}',
            b'{"type":"progress","payload":{"step":"x"}}',
            b'{"type":"from_the_future","payload":{}}',
            b"\xff\xfe\x00",
            b"[" * 100_000,
            b"",
            TooLong.of(b"x"),
            TooLong.of(b"y"),
        ]
    )
    news = message_queue.drain()
    assert (news.notes, dict(news.states)) == ([], {})
    assert news.losses.unreadable == 7
    assert news.losses.too_long == 2


def test_replies_go_to_whom_asked_and_a_failure_of_the_run_is_news() -> None:
    message_queue, replies = MessageQueue(), list[tuple[MessageId, Reply]]()
    message_queue.on_reply = lambda id, reply: replies.append((id, reply))
    ack, refused, failed = (
        Ack(command="pause"),
        Failure(code="failed", message="no"),
        Failure(code="run_failed", message="x"),
    )
    message_queue.take_lines(
        [write_message(ack, "a", is_reply=True), write_message(refused, 2, is_reply=True), write_message(failed)]
    )
    assert replies == [("a", ack), (2, refused)]
    assert [note.what for note in message_queue.drain().notes] == [failed]


def test_messages_of_many_kinds_keep_their_order() -> None:
    message_queue = MessageQueue()
    sent = [ProgressNews(step=1, metrics={}), LogLine(line="a"), ProgressNews(step=2, metrics={}), Warned(message="b")]
    message_queue.take_lines(write_message(each) for each in sent)
    assert [note.what for note in message_queue.drain().notes] == sent


def test_what_describes_a_state_is_known_to_the_protocol() -> None:
    from ludus.daemon.messages import NOTIFICATIONS

    assert NOTIFICATIONS.keys() >= intakes.STATES
