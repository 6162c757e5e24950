"""What rooms have done, read from another thread."""

from __future__ import annotations

import os
import time

from ludus.runtime.fork_launcher import process_cpu_s
from ludus.telemetry import ROOMS, Fill, RoomMeters, added_up


def test_rooms_count_what_they_do_and_lose() -> None:
    meters = RoomMeters()
    meters.add("explore", 3, dropped=1)
    meters.add("explore", 2)
    meters.set("buffer", dropped=7)
    with meters.working("train"):
        working = meters.read()["train"].busy_s
    read = meters.read()
    assert list(read) == list(ROOMS)
    assert (read["explore"].count, read["explore"].dropped) == (5, 1)
    assert read["buffer"].dropped == 7
    assert working is not None  # work shows from its beginning on
    assert read["train"].busy_s is not None
    assert read["train"].busy_s >= working
    assert read["tasks"].busy_s is None


def test_work_inside_of_work_counts_once() -> None:
    meters = RoomMeters()
    with meters.working("storage"):
        with meters.working("storage"):
            pass
        assert meters.read()["storage"].busy_s is not None  # the outer block still works
    busy_s = meters.read()["storage"].busy_s
    assert busy_s is not None
    assert busy_s < 1000.0


def test_a_fill_that_changes_while_it_is_read_is_left_out_once() -> None:
    meters = RoomMeters()

    def changing() -> Fill:
        raise RuntimeError("dictionary changed size during iteration")

    meters.watch("explore", "in flight", changing)
    meters.watch("buffer", "window", lambda: Fill(length=3, capacity=12))
    read = meters.read()
    assert read["explore"].fills == {}
    assert read["buffer"].fills["window"].share == 0.25


def test_the_work_of_processes_is_their_cpu_time() -> None:
    meters = RoomMeters()
    meters.watch_workers("explore", lambda: {"explorer-0#1": process_cpu_s(os.getpid()) or 0.0})
    before = meters.read()["explore"].busy_s
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    after = meters.read()["explore"].busy_s
    assert before is not None
    assert after is not None
    assert after > before
    assert process_cpu_s(2**30) is None


def test_several_runs_at_once_are_added_up() -> None:
    one, two = RoomMeters(), RoomMeters()
    one.add("train", 3)
    two.add("train", 4, dropped=1)
    for meters in (one, two):
        with meters.working("train"):
            pass
    one.watch("buffer", "window", lambda: Fill(length=1, capacity=10))
    two.watch("buffer", "window", lambda: Fill(length=9, capacity=10))
    total = added_up([one.read(), two.read(), {}])
    assert (total["train"].count, total["train"].dropped) == (7, 1)
    assert total["train"].busy_s == sum(meters.read()["train"].busy_s or 0.0 for meters in (one, two))
    assert total["buffer"].fills["window"].length == 9


def test_a_run_shows_only_the_rooms_that_it_has() -> None:
    meters = RoomMeters()
    meters.keep("train", "explore")
    meters.add("buffer", 3)
    with meters.working("experience"):
        pass
    assert list(meters.read()) == ["explore", "train"]
