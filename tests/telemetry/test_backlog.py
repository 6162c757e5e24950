"""A bounded queue with several readers: nobody waits for anybody, and what is lost is counted exactly."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from ludus.telemetry.sinks import Backlog


def test_every_reader_gets_everything_in_order_and_then_the_end() -> None:
    backlog = Backlog(10)
    readers = [backlog.reader(), backlog.reader()]
    for number in range(5):
        backlog.put(number)
    backlog.close()
    backlog.put(99)
    for reader in readers:
        assert list(iter(reader.take, None)) == [0, 1, 2, 3, 4]
        assert reader.missed == 0


def test_a_reader_that_left_misses_everything_from_then_on() -> None:
    backlog = Backlog(10)
    reader = backlog.reader()
    for number in range(4):
        backlog.put(number)
    assert reader.take() == 0
    reader.leave()
    backlog.put(4)
    assert (reader.missed, reader.waiting) == (4, 0)


def test_a_rest_ends_when_nothing_more_comes() -> None:
    backlog = Backlog(10)
    reader = backlog.reader()
    resting = threading.Thread(target=reader.rest, args=(300.0,), daemon=True)
    resting.start()
    backlog.close()
    resting.join(10)
    assert not resting.is_alive()


@given(st.lists(st.sampled_from(["put", "take"]), max_size=60), st.integers(1, 8))
def test_what_was_taken_missed_and_waits_adds_up_to_what_was_put(actions: list[str], length: int) -> None:
    backlog = Backlog(length)
    reader, put, taken = backlog.reader(), 0, []
    for action in actions:
        if action == "put":
            backlog.put(put)
            put += 1
        elif reader.waiting:
            taken.append(reader.take())
        assert len(taken) + reader.missed + reader.waiting == put
        assert reader.waiting <= length
    backlog.close()
    taken += list(iter(reader.take, None))
    assert taken == sorted(set(taken))
    assert taken[-length:] == list(range(put))[-length:]
    assert len(taken) + reader.missed == put
