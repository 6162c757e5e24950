"""What is known of a run is bounded, survives the loss of its process, and is told once."""

from __future__ import annotations

from ludus.daemon.messages import EventNews, Failure, LogLine, Payload, ProgressNews, RoomStatus, Schedule, Status
from ludus.monitor.message_queue import MessageQueue
from ludus.monitor.run_view import MOST_LOG_LINES, MOST_METRICS, MOST_POINTS, RunView

ROOM = RoomStatus(name="train", unit="updates", rate=2.0, total=7, load=0.5)


def told(view: RunView, *payloads: Payload, is_retold: bool = False) -> RunView:
    message_queue = MessageQueue()
    message_queue.take(payloads, is_retold=is_retold)
    view.absorb(message_queue.drain())
    return view


def test_log_curves_and_metrics_are_bounded() -> None:
    view = RunView()
    for start in range(0, 4000, 500):
        told(view, *(LogLine(line=f"{number}") for number in range(start, start + 500)))
        told(view, *(ProgressNews(step=step, metrics={"train/loss": 0.5}) for step in range(start, start + 500)))
    told(view, ProgressNews(step=1, metrics={f"m/{number}": 1.0 for number in range(3 * MOST_METRICS)}))
    assert len(view.log) == MOST_LOG_LINES
    assert view.log[-1].text == "3999"
    assert len(view.curve("train/loss")) <= MOST_POINTS
    assert len(view.values) == MOST_METRICS
    assert len(view._points) <= MOST_METRICS + 1


def test_a_resumed_run_goes_on_where_its_checkpoint_was_and_lines_that_are_read_again_change_nothing() -> None:
    view = told(RunView(), *(ProgressNews(step=step, metrics={"a": float(step)}) for step in (1, 2, 3, 4)))
    told(view, *(ProgressNews(step=step, metrics={"a": float(step)}) for step in (1, 2, 3, 4)))
    assert view.curve("a") == [1.0, 2.0, 3.0, 4.0]
    told(view, ProgressNews(step=3, metrics={"a": 30.0}))
    assert view.curve("a") == [1.0, 2.0, 30.0]


def test_rooms_and_times_stay_when_only_files_are_left_to_tell() -> None:
    live = Status(stage="TRAINING", run_dir="r", rooms=(ROOM,), uptime_s=9.0, schedule=Schedule(cycles=3), steps=5)
    view = told(told(RunView(), live), Status(stage="STOPPED", run_dir="r", steps=6))
    assert (view.status.stage, view.status.steps, view.status.uptime_s, view.status.schedule.cycles) == (
        "STOPPED",
        6,
        9.0,
        3,
    )
    assert [(room.rate, room.load, room.total) for room in view.status.rooms] == [(0.0, 0.0, 7)]
    assert told(view, Status(stage="STOPPED", run_dir="another")).status.rooms == ()


def test_what_was_told_live_is_not_told_again_from_the_files() -> None:
    event = EventNews(event="published", fields={"policy": "main@3"})
    view = told(told(RunView(), event), event, LogLine(line="new"), is_retold=True)
    assert [entry.text for entry in view.log] == ["published policy=main@3", "new"]
    assert len(told(view, event).log) == 3


def test_a_failure_stays_while_the_run_is_failed_and_goes_when_it_works_again() -> None:
    view = told(RunView(), Failure(code="run_failed", message="no disk"), Status(stage="ERROR", error="no disk"))
    assert view.failure == "no disk"
    assert told(view, Status(stage="ERROR")).failure == "no disk"
    assert told(view, Status(stage="TRAINING")).failure == ""


def test_another_run_or_part_begins_its_own_curves() -> None:
    view = told(RunView(), Status(stage="TRAINING", part="1/2 sft"), ProgressNews(step=9, metrics={"a": 1.0}))
    assert told(view, Status(stage="TRAINING", part="2/2 mix")).curve("a") == []


def test_control_characters_of_a_log_never_reach_the_terminal() -> None:
    view = told(RunView(), LogLine(line="a\x1b[31mred\x07\tb\u202ec"))
    assert view.log[0].text.isprintable()
