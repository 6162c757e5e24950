"""Metrics reach every sink; a sink that raises, hangs or is slow holds up neither the run nor another sink."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import SinkStatus, Telemetry, sinks
from ludus.telemetry import telemetry as module
from ludus.telemetry.telemetry import QUEUE_LENGTH


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(sinks, "LONGEST_PAUSE_S", 0.01)


@pytest.fixture
def telemetry(tmp_path: Path) -> Telemetry:
    run = RunDirectory(tmp_path / "run")
    run.create("name: x\n")
    return Telemetry(run, "x")


def events(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_jsonl(tmp_path / "run" / "events.jsonl") if line["event"] == kind]


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return list(read_jsonl(tmp_path / "run" / "metrics.jsonl"))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + 30, threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.005)


class Recorder:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.seen.append((step, dict(values)))

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.seen.append((kind, dict(fields)))

    def close(self) -> None:
        self.seen.append("closed")


class Broken(Recorder):
    """Refuses so many metric lines, then takes them."""

    name = "broken"

    def __init__(self, failures: int = 10**9) -> None:
        super().__init__()
        self.failures = failures

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("no space left")
        super().metrics(step, values)


class Hung(Recorder):
    name = "hung"

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.is_abandoned = False

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.let_go.wait(60)

    def abandon(self) -> None:
        self.is_abandoned = True
        self.let_go.set()


def test_sinks_get_everything_in_order_and_are_closed(telemetry: Telemetry, tmp_path: Path) -> None:
    sink = Recorder()
    telemetry.attach(sink)
    telemetry.metrics(1, {"train/loss": 1.0})
    telemetry.event("published", policy="main@1")
    telemetry.close()
    assert sink.seen == [(1, {"train/loss": 1.0}), ("published", {"policy": "main@1"}), "closed"]
    assert telemetry.latest == {"train/loss": 1.0}
    (last,) = events(tmp_path, "sinks")
    assert last["sinks"] == [{"name": "Recorder", "queued": 0, "dropped": 0, "error": "", "is_off": False}]


def test_what_is_not_finite_is_null_in_the_file(telemetry: Telemetry, tmp_path: Path) -> None:
    telemetry.metrics(1, {"bad": float("nan"), "worse": float("inf"), "good": 2.0})
    telemetry.close()
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert json.loads(text)["bad"] is None
    assert "NaN" not in text


def test_a_sink_that_always_raises_is_switched_off_and_the_rest_goes_on(telemetry: Telemetry, tmp_path: Path) -> None:
    good, broken = Recorder(), Broken()
    telemetry.attach(broken)
    telemetry.attach(good)
    for step in range(20):
        telemetry.metrics(step, {"train/loss": 1.0})
        telemetry.event("published", policy=f"main@{step}")  # which it takes: no proof that it works
    wait_until(lambda: telemetry.sinks_status()[0].is_off)
    telemetry.metrics(20, {"train/loss": 1.0})
    telemetry.close()
    off, fine = telemetry.sinks_status()
    assert off == SinkStatus(name="broken", queued=0, dropped=off.dropped, error="OSError: no space left", is_off=True)
    assert off.dropped >= 21
    assert (fine.dropped, fine.error) == (0, "")
    assert broken.seen[-1] == "closed"
    assert not [seen for seen in broken.seen if isinstance(seen[0], int)]
    assert [step for step, *_ in good.seen if isinstance(step, int)] == list(range(21))
    assert len(lines(tmp_path)) == 21
    assert lines(tmp_path)[-1]["telemetry/dropped"] >= 20
    (told,) = events(tmp_path, "sink_off")
    assert (told["sink"], told["error"]) == ("broken", "OSError: no space left")


def test_a_sink_that_fails_for_a_while_goes_on_afterwards(telemetry: Telemetry, tmp_path: Path) -> None:
    sink = Broken(failures=sinks.MOST_FAILURES - 1)
    telemetry.attach(sink)
    for step in range(20):
        telemetry.metrics(step, {"train/loss": 1.0})
    telemetry.close()
    (status,) = telemetry.sinks_status()
    assert (status.dropped, status.error, status.is_off) == (9, "", False)
    assert [step for step, _ in sink.seen[:-1] if isinstance(step, int)] == list(range(9, 20))
    assert events(tmp_path, "sink_off") == []


def test_a_hung_sink_costs_its_own_lines_and_no_time(telemetry: Telemetry, tmp_path: Path) -> None:
    hung, good = Hung(), Recorder()
    telemetry.attach(hung)
    telemetry.attach(good)
    for step in range(QUEUE_LENGTH + 500):
        telemetry.metrics(step, {"train/loss": 1.0})
        wait_until(lambda: telemetry.sinks_status()[1].queued < QUEUE_LENGTH // 2)
    stuck, fine = telemetry.sinks_status()
    assert 499 <= stuck.dropped <= 500
    assert stuck.queued == QUEUE_LENGTH
    assert fine.dropped == 0
    hung.let_go.set()
    telemetry.close()
    assert [step for step, *_ in good.seen if isinstance(step, int)] == list(range(QUEUE_LENGTH + 500))
    assert len(lines(tmp_path)) == QUEUE_LENGTH + 500
    assert lines(tmp_path)[-1]["telemetry/dropped"] >= 499
    (told,) = events(tmp_path, "sink_behind")
    assert told["sink"] == "hung"


def test_closing_does_not_wait_for_a_sink_that_hangs(
    telemetry: Telemetry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_DEADLINE_S", 0.2)
    hung, good = Hung(), Recorder()
    telemetry.attach(hung)
    telemetry.attach(good)
    for step in range(5):
        telemetry.metrics(step, {"train/loss": 1.0})
    wait_until(lambda: telemetry.sinks_status()[0].queued == 4)
    started = time.monotonic()
    telemetry.close()
    assert time.monotonic() - started < 5
    assert hung.is_abandoned
    assert good.seen[-1] == "closed"
    stuck, fine = events(tmp_path, "sinks")[0]["sinks"]
    assert (stuck["dropped"], stuck["error"]) == (5, "it did not take its last lines in time")
    assert (fine["dropped"], fine["error"]) == (0, "")


def test_room_times_add_up_and_are_taken_once(telemetry: Telemetry) -> None:
    for _ in range(2):
        with telemetry.room("train"):
            pass
    assert telemetry.take_room_times()["time/train_s"] >= 0
    assert telemetry.take_room_times() == {}
    telemetry.close()
