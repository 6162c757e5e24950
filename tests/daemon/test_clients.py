"""Clients of a service: the Leela daemon's, those at the socket of a live run, and what each is told."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ludus import parse_config
from ludus.daemon.driver import Driver
from ludus.daemon.launch import hosted
from ludus.daemon.sockets import connect
from ludus.runs.driver import CycleStatus
from ludus.runs.staged import make_run

NAME = "control.sock"
LONG = """
name: long
games: [open_spiel:leduc_poker]
population: {stop: {nash_conv: null, generations: 100000}}
telemetry: {tensorboard: false}
"""
LEELA_SCHEDULE = {
    "current_stage",
    "completed_epochs_since_start",
    "new_chunks_since_training_start",
    "chunks_to_wait",
    "total_uptime_seconds",
    "current_training_time_seconds",
    "previous_training_time_seconds",
    "current_cycle_time_seconds",
    "previous_cycle_time_seconds",
}


class Talk:
    """A client at a socket."""

    def __init__(self, run: Path) -> None:
        self._socket = connect(run)
        self._file = self._socket.makefile("rb")
        self._socket.settimeout(60)

    def send(self, type: str, id: object, **payload: Any) -> None:
        self._socket.sendall(json.dumps({"type": type, "payload": payload, "id": id}).encode() + b"\n")

    def until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for line in self._file:
            message: dict[str, Any] = json.loads(line)
            if is_it(message):
                return message
        raise AssertionError("the run is gone")

    def ask(self, type: str, **payload: Any) -> dict[str, Any]:
        self.send(type, type, **payload)
        return self.until(lambda message: message.get("id") == type)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def live_run(path: Path) -> Iterator[Any]:
    loop = make_run(parse_config(LONG, "long.yaml"), path)
    with hosted(loop):
        loop.start()
        end = time.monotonic() + 60
        while not (path / NAME).exists():
            assert time.monotonic() < end
        try:
            yield loop
        finally:
            loop.stop()
            loop.wait(60)


def test_a_client_of_the_leela_daemon_gets_its_own_messages_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        daemon.send("start_training", config_filepath="long.yaml")
        found = daemon.wait_for(lambda message: bool(message["payload"]["dataloader_total"]["stage_metrics"]))
        for _ in range(2):
            daemon.wait_for(lambda message: True)
        daemon.send("start_training_immediately")
        assert {message["type"] for message in daemon.messages} == {"training_status"}
        payload = found["payload"]
        assert set(payload) == {
            "dataloader_update_secs",
            "dataloader_1_second",
            "dataloader_total",
            "training_schedule",
        }
        assert set(payload["training_schedule"]) == LEELA_SCHEDULE
        assert payload["training_schedule"]["current_stage"] in ("WAITING FOR DATA", "TRAINING")
        (stage, *_) = payload["dataloader_total"]["stage_metrics"]
        assert {"name", "load_metrics", "queue_metrics", "count_metrics"} <= set(stage)
        daemon.send("status", "now we are ludus")
        assert daemon.wait_for(lambda message: "id" in message)["payload"]["command"] == "status"
        daemon.wait_for_stage("TRAINING")


def test_a_live_run_is_watched_and_driven_through_its_socket(tmp_path: Path) -> None:
    run = tmp_path / ("a_long_name_" * 9) / "run"  # longer than the path of a socket may be
    run.parent.mkdir()
    with live_run(run) as loop:
        assert stat.S_IMODE(os.stat(run / NAME).st_mode) == 0o600
        first, second = Talk(run), Talk(run)
        assert first.ask("subscribe", types=["status"], interval_s=0.1)["type"] == "ack"
        assert second.ask("pause")["type"] == "ack"
        first.until(lambda message: message["payload"].get("stage") == "PAUSED")
        saved = second.ask("checkpoint")["payload"]["result"]
        assert Path(saved["path"]).is_dir()
        second.close()  # observers come and go
        assert first.ask("resume")["type"] == "ack"
        first.until(lambda message: message["payload"].get("stage") == "TRAINING")
        refused = first.ask("start_training", config="x.yaml")
        assert (refused["type"], refused["payload"]["code"]) == ("error", "wrong_state")
        stopped = first.ask("stop")["payload"]["result"]
        assert stopped["stage"] == "STOPPED"
        assert loop.status().stage == "stopped"
        first.close()
    assert not (run / NAME).exists()


def test_a_client_gets_what_it_subscribed_to(tmp_path: Path) -> None:
    with live_run(tmp_path / "run"):
        talk = Talk(tmp_path / "run")
        assert talk.ask("subscribe", types=[])["payload"]["result"] == {"types": []}
        talk.send("status", 1)
        assert talk.until(lambda message: True)["id"] == 1
        assert talk.ask("subscribe", types=["progress"])["type"] == "ack"
        assert talk.until(lambda message: True)["type"] == "progress"
        refused = talk.ask("subscribe", types=["zork"])
        assert "there is no zork" in refused["payload"]["message"]
        talk.close()


def test_only_so_many_clients_are_served_at_once(tmp_path: Path) -> None:
    with live_run(tmp_path / "run"):
        talks = [Talk(tmp_path / "run") for _ in range(32)]
        for talk in talks:
            talk.ask("status")
        late = Talk(tmp_path / "run")
        assert "too many clients" in late.until(lambda message: True)["payload"]["message"]
        for talk in [*talks, late]:
            talk.close()


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with live_run(run):
        pass
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(run / NAME))
    left.close()
    with pytest.raises(ConnectionRefusedError):
        connect(run)
    loop = make_run(parse_config(LONG, "long.yaml"), run)
    with hosted(loop):
        loop.start()
        end = time.monotonic() + 60
        while True:
            try:
                Talk(run).close()
                break
            except OSError:
                assert time.monotonic() < end
        loop.stop()
        loop.wait(60)


def test_a_failed_run_is_told_once_and_another_one_can_be_started(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "something_else").write_text("")
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        daemon.ask("start_training", config="long.yaml", run_dir="run")
        assert daemon.wait_for_stage("ERROR")["error"]
        daemon.wait_for_stage("ERROR")
        (failure,) = [message for message in daemon.messages if message["type"] == "error"]
        assert failure["payload"]["code"] == "run_failed"
        assert "not a run" in failure["payload"]["message"]
        assert "not a run" in (tmp_path / "log").read_text()
        daemon.ask("start_training", config="long.yaml", run_dir="other")
        daemon.wait_for_stage("TRAINING")
        assert sum(message["type"] == "error" for message in daemon.messages) == 1


def test_a_client_can_begin_a_run_anew(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    with Driver(log=tmp_path / "log", folder=tmp_path) as daemon:
        for number, wish in enumerate([{}, {"from_scratch": True}]):
            daemon.ask("start_training", config="long.yaml", run_dir="run", **wish)
            daemon.wait_for_stage("TRAINING")
            daemon.ask("stop")
            assert (tmp_path / "run" / "earlier" / "1" / "checkpoints").is_dir() == bool(number)


def test_the_schedule_of_a_run_without_cycles_is_one_cycle(tmp_path: Path) -> None:
    loop = make_run(parse_config(LONG, "long.yaml"), tmp_path / "run")
    assert isinstance(loop.schedule(), CycleStatus)
    assert loop.schedule().data_to_wait == 0
