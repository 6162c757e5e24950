"""Metrics reach every sink; a sink that raises, hangs or is slow never holds up the run."""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import Telemetry, TensorBoardSink
from ludus.telemetry.telemetry import QUEUE_LENGTH


@pytest.fixture
def telemetry(tmp_path: Path) -> Telemetry:
    run = RunDirectory(tmp_path / "run")
    run.create("name: x\n")
    return Telemetry(run, "x")


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
    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        raise OSError("no space left")


class Hung(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self.let_go.wait(60)


def test_sinks_get_everything_in_order_and_are_closed(telemetry: Telemetry) -> None:
    sink = Recorder()
    telemetry.attach(sink)
    telemetry.metrics(1, {"a": 1.0})
    telemetry.event("published", policy="main@1")
    telemetry.close()
    assert sink.seen == [(1, {"a": 1.0}), ("published", {"policy": "main@1"}), "closed"]
    assert telemetry.latest == {"a": 1.0}


def test_what_is_not_finite_is_null_in_the_file(telemetry: Telemetry, tmp_path: Path) -> None:
    telemetry.metrics(1, {"bad": float("nan"), "worse": float("inf"), "good": 2.0})
    telemetry.close()
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert json.loads(text)["bad"] is None
    assert "NaN" not in text


def test_a_sink_that_raises_is_switched_off_and_the_rest_goes_on(telemetry: Telemetry, tmp_path: Path) -> None:
    good = Recorder()
    telemetry.attach(Broken())
    telemetry.attach(good)
    for step in range(3):
        telemetry.metrics(step, {"a": 1.0})
    telemetry.close()
    assert len(good.seen) == 4
    assert len(list(read_jsonl(tmp_path / "run" / "metrics.jsonl"))) == 3


def test_a_hung_sink_costs_dropped_lines_and_no_time(telemetry: Telemetry, tmp_path: Path) -> None:
    hung = Hung()
    telemetry.attach(hung)
    started = time.monotonic()
    for step in range(QUEUE_LENGTH + 500):
        telemetry.metrics(step, {"a": 1.0})
    assert time.monotonic() - started < 20
    assert telemetry.dropped >= 499
    hung.let_go.set()
    telemetry.close()
    assert len(list(read_jsonl(tmp_path / "run" / "metrics.jsonl"))) == QUEUE_LENGTH + 500


def test_tensorboard_gets_finite_numbers(telemetry: Telemetry, tmp_path: Path) -> None:
    telemetry.attach(TensorBoardSink(tmp_path / "tensorboard"))
    telemetry.metrics(1, {"a": 1.0, "bad": float("nan")})
    telemetry.close()
    (written,) = (tmp_path / "tensorboard").iterdir()
    content = written.read_bytes()
    assert b"bad" not in content
    assert b"\x01a" in content


def test_room_times_add_up_and_are_taken_once(telemetry: Telemetry) -> None:
    for _ in range(2):
        with telemetry.room("train"):
            pass
    assert telemetry.take_room_times()["time/train_s"] >= 0
    assert telemetry.take_room_times() == {}
    telemetry.close()
