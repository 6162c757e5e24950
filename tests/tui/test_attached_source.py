"""Attached to a run: live through its socket, as it was left from its files, and back again when it comes back."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path

from ludus.daemon.messages import Ack, Failure, Pause, Payload, ProgressNews, Status
from ludus.daemon.protocol import write_message
from ludus.daemon.run_watch import RunWatch
from ludus.monitor.live_sources import AttachedSource
from ludus.monitor.message_queue import MessageQueue
from ludus.monitor.run_view import RunView
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory
from ludus.tui.panes.log import draw


class Files:
    """Stands for the reader of a run's files."""

    def __init__(self, path: Path) -> None:
        self.polls = 0

    def poll(self) -> list[Payload]:
        """The state, each time."""
        self.polls += 1
        return [ProgressNews(step=self.polls, metrics={"a": 1.0}), Status(stage="STOPPED", run_dir="r")]


class Door:
    """A run's process, as far as its socket shows it: tells one status and answers commands."""

    def __init__(self, run_dir: Path) -> None:
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(run_dir, os.O_PATH)
        self._listening.bind(f"/proc/self/fd/{folder}/control.sock")
        os.close(folder)
        self._listening.listen(1)
        self._path = run_dir / "control.sock"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._link, _ = self._listening.accept()
        except OSError:
            return
        self._link.sendall(write_message(Status(stage="TRAINING", run_dir="r")))
        with self._link.makefile("rb") as lines:
            for line in lines:
                id = line.rpartition(b'"id":"')[2].split(b'"')[0].decode()
                self._link.sendall(write_message(Ack(command="any"), id, is_reply=True))

    def close(self) -> None:
        """As when the process dies."""
        self._path.unlink()
        self._listening.close()
        self._link.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._link.close()


def stage_when(message_queue: MessageQueue, stage: str) -> Status:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        status = message_queue.drain().states.get("status")
        if isinstance(status, Status) and status.stage == stage:
            return status
        time.sleep(0.01)
    raise AssertionError(f"never {stage}")


def await_state(source: AttachedSource, state: str) -> None:
    deadline = time.monotonic() + 10
    while source.connection.state != state:
        assert time.monotonic() < deadline, source.connection
        time.sleep(0.01)


def test_a_run_that_nobody_runs_is_shown_as_it_was_left_and_commands_are_refused_with_what_to_do(
    tmp_path: Path,
) -> None:
    source, message_queue = AttachedSource(tmp_path, Files, poll_s=0.02), MessageQueue()
    source.start(message_queue)
    stage_when(message_queue, "STOPPED")
    await_state(source, "left")
    assert "nobody runs it" in source.connection.words
    reply = source.send(Pause()).result(1)
    assert isinstance(reply, Failure)
    assert f"ludus tui {tmp_path}/config.yaml" in reply.message
    assert source.close() == ""


def test_a_process_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        source, message_queue = AttachedSource(tmp_path, Files, poll_s=0.02), MessageQueue()
        source.start(message_queue)
        await_state(source, "left")
        assert f"process {os.getpid()} runs it" in source.connection.words
        source.close()


def test_it_follows_a_run_that_goes_and_comes_back_in_a_path_of_any_length(tmp_path: Path) -> None:
    run_dir = tmp_path / ("deep" * 30) / "run"
    run_dir.mkdir(parents=True)
    source, message_queue, door = AttachedSource(run_dir, Files, poll_s=0.02), MessageQueue(), Door(run_dir)
    source.start(message_queue)
    stage_when(message_queue, "TRAINING")
    await_state(source, "live")
    assert isinstance(source.send(Pause()).result(5), Ack)
    door.close()
    stage_when(message_queue, "STOPPED")
    assert source.connection.state == "lost"
    again = Door(run_dir)
    stage_when(message_queue, "TRAINING")
    await_state(source, "live")
    assert source.close() == f"the run in {run_dir} continues"
    again.close()


def test_files_that_cannot_be_read_are_told_of_and_tried_again(tmp_path: Path) -> None:
    class Broken(Files):
        def poll(self) -> list[Payload]:
            if self.polls < 3:
                self.polls += 1
                raise OSError("the disk is asleep")
            return super().poll()

    source, message_queue = AttachedSource(tmp_path, Broken, poll_s=0.02), MessageQueue()
    source.start(message_queue)
    await_state(source, "left")
    assert "the disk is asleep" in source.connection.words
    stage_when(message_queue, "STOPPED")
    source.close()


def test_events_of_the_past_have_the_time_at_which_they_happened(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.prepare()
    run.create("name: tiny\ngames: [open_spiel:tic_tac_toe]\n")
    events = [{"event": "published", "policy": "main@1"}, {"event": "worker_lost"}, {"event": "failed"}, {"event": "x"}]
    run.events.write_text("".join(json.dumps({"time": 1000.0 + n, **each}) + "\n" for n, each in enumerate(events)))
    queue = MessageQueue()
    queue.take(RunWatch(run.path).poll(), is_retold=True)
    view = RunView()
    view.absorb(queue.drain())
    assert [entry.at_s for entry in view.log] == [1000.0, 1001.0, 1002.0, 1003.0]
    lines = [line.plain for line in draw(view, 80)]
    assert [line[:8] for line in lines] == ["00:16:40", "00:16:41", "00:16:42", "00:16:43"]
