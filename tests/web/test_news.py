"""News and commands of a run whose socket is ours: it can hang, flood and lie, and the page hears what is true."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Serve, Server

from ludus.storage.lock import RunLock
from ludus.web.news import newsroom
from ludus.web.static_page import BUILT, INDEX

DEADLINE_S = 30.0
Talk = Callable[[socket.socket], None]


@contextmanager
def talking(run: Path, talk: Talk) -> Iterator[None]:
    """A process that has the run and says what `talk` says to whoever attaches."""
    with RunLock(run), socket.socket(socket.AF_UNIX) as door:
        here = os.getcwd()
        os.chdir(run)  # paths of sockets are short
        try:
            door.bind("control.sock")
        finally:
            os.chdir(here)
        door.listen(4)

        def accept() -> None:
            while True:
                try:
                    link, _ = door.accept()
                except OSError:
                    return
                threading.Thread(target=serve_one, args=(link,), daemon=True).start()

        def serve_one(link: socket.socket) -> None:
            with link:
                try:
                    talk(link)
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield
        finally:
            door.shutdown(socket.SHUT_RDWR)
            (run / "control.sock").unlink()


def message(kind: str, **payload: Any) -> bytes:
    return json.dumps({"type": kind, "payload": payload}, separators=(",", ":")).encode() + b"\n"


class Stream:
    """Server-sent events as a browser reads them."""

    def __init__(self, server: Server, run: str = "study%2Fkuhn") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        self.connection.request("GET", f"/api/news?run={run}")
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            line = self.answer.readline()
            if line.startswith(b"data: ") and holds(told := json.loads(line[6:])):
                return told
        raise AssertionError("never told")

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def listen() -> Iterator[Callable[[Server], Stream]]:
    streams: list[Stream] = []

    def open_stream(server: Server) -> Stream:
        streams.append(Stream(server))
        return streams[-1]

    yield open_stream
    for stream in streams:
        stream.close()


Listen = Callable[[Server], Stream]


def test_a_run_in_which_nothing_happens_is_told_once(
    serve: Serve, runs: Path, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newsroom, "BEAT_S", 0.4)
    stream, beats, statuses = listen(serve(runs)), 0, 0
    while beats < 4:
        told = stream.until(lambda told: True)
        statuses += "status" in told
        beats = beats + 1 if statuses and list(told) == ["connection"] else beats
    assert statuses == 1


def test_a_finished_run_is_told_as_it_was_left(serve: Serve, runs: Path, listen: Listen) -> None:
    told = listen(serve(runs)).until(lambda told: told.get("status", {}).get("stage") == "DONE")
    assert told["status"]["steps"] == 252
    assert told["connection"]["state"] == "left"


def test_a_socket_that_lies_floods_and_hangs_is_counted_and_bounded(serve: Serve, runs: Path, listen: Listen) -> None:
    floods, stays = threading.Event(), threading.Event()

    def talk(link: socket.socket) -> None:
        link.sendall(b"garbage\n\0\xff\n" + message("status", stage="LYING") + b"x" * 1_500_000 + b"\n")
        link.sendall(message("status", stage="TRAINING", steps=7, run="<script>"))
        floods.wait(DEADLINE_S)
        flood = message("event", event="noise", fields={"text": "a" * 50}) * 1000
        for _ in range(100):
            link.sendall(flood)
        link.sendall(message("log", line="the last"))
        stays.wait(DEADLINE_S)

    with talking(runs / "study" / "kuhn", talk):
        stream = listen(serve(runs))
        stream.until(lambda told: told.get("status", {}).get("steps") == 7)
        floods.set()
        told = stream.until(
            lambda told: any("the last" in line["text"] for line in told.get("log", {}).get("lines", []))
        )
        assert len(told["log"]["lines"]) <= 500
        assert told["connection"]["skipped"]["event"] > 90_000
        assert told["connection"]["too_long"] == 1
        assert told["connection"]["unreadable"] >= 2
        silent = stream.until(lambda told: told["connection"]["quiet_s"] > 2)  # it hangs: the age is told
        assert silent["connection"]["state"] == "live"
        stays.set()
    stream.until(lambda told: told["connection"]["state"] in ("lost", "left"))


def test_a_run_whose_news_cannot_be_taken_ends_no_others(serve: Serve, runs: Path, listen: Listen) -> None:
    shutil.copytree(runs / "study" / "kuhn", runs / "bad")
    server, tries = serve(runs), list[int]()

    def refresh() -> None:
        tries.append(1)
        raise ValueError("a fault of ours")

    bad = Stream(server, "bad")
    while not (watched := server.site.newsroom._runs.get(runs / "bad")):
        pass
    watched.refresh = refresh  # type: ignore[method-assign]
    other = listen(server)
    other.until(lambda told: len(tries) > 1 and told["connection"]["state"] == "left")
    bad.close()


@pytest.mark.slow
def test_ctrl_c_ends_a_server_with_open_pages_at_once_and_in_silence(runs: Path) -> None:
    if not (BUILT / INDEX).is_file():
        pytest.skip("needs the page; build it with: make web")
    command, pipe = [sys.executable, "-P", "-m", "ludus.cli.app", "web", str(runs), "--port", "0"], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        stream = Stream(Server(int(told.rpartition(":")[2].strip("/\n")), site=None))  # type: ignore[arg-type]
        stream.until(lambda told: True)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_S)
        stream.close()
    assert "Traceback" not in said
    assert "Cancel" not in said


def test_so_many_streams_and_no_more(serve: Serve, runs: Path, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newsroom, "MOST_STREAMS", 2)
    server = serve(runs)
    first, second = listen(server), listen(server)
    first.until(lambda told: True)
    second.until(lambda told: True)
    assert server.ask("/api/news?run=study%2Fkuhn").status == 503
    first.close()
    end = time.monotonic() + DEADLINE_S
    while server.site.newsroom._streams == 2 and time.monotonic() < end:
        second.until(lambda told: True)
    assert server.site.newsroom._streams == 1
    assert server.ask("/api/news?run=nothing").status == 404


def answering(heard: list[dict[str, Any]]) -> Talk:
    def talk(link: socket.socket) -> None:
        link.sendall(message("status", stage="TRAINING", steps=1))
        for line in link.makefile("rb"):
            told = json.loads(line)
            heard.append(told)
            if told["type"] == "stop":
                answer = {"type": "error", "payload": {"code": "wrong_state", "message": "not now"}, "id": told["id"]}
            else:
                answer = {
                    "type": "ack",
                    "payload": {"command": told["type"], "result": {"update": 3}},
                    "id": told["id"],
                }
            link.sendall(json.dumps(answer).encode() + b"\n")

    return talk


COMMANDS = "/api/runs/study%2Fkuhn/commands/"


def test_commands_reach_the_run_and_show_its_reply(serve: Serve, runs: Path) -> None:
    heard: list[dict[str, Any]] = []
    server = serve(runs, control=True)
    server.enter(server.site.sessions.control_token)
    with talking(runs / "study" / "kuhn", answering(heard)):
        for name in ("pause", "resume", "checkpoint", "train_now", "export"):
            reply = server.ask(COMMANDS + name, "POST", body={}).json
            assert (reply["is_done"], reply["result"]) == (True, {"update": 3}), reply
        reply = server.ask(COMMANDS + "set", "POST", body={"values": {"train.steps": 5}}).json
        assert reply["is_done"]
        refused = server.ask(COMMANDS + "stop", "POST", body={}).json
        assert (refused["is_done"], refused["message"]) == (False, "not now")
    asked = [each["type"] for each in heard if each["type"] != "subscribe"]
    assert asked == ["pause", "resume", "checkpoint", "start_training_immediately", "export", "set", "stop"]
    assert heard[-2]["payload"] == {"values": {"train.steps": 5}}


def test_who_may_not_control_reaches_no_run(serve: Serve, runs: Path) -> None:
    heard: list[dict[str, Any]] = []
    server = serve(runs, control=True)
    server.enter()
    with talking(runs / "study" / "kuhn", answering(heard)):
        assert server.ask(COMMANDS + "stop", "POST", body={}).status == 403  # a session that only reads
        server.enter(server.site.sessions.control_token)
        csrf, server.csrf = server.csrf, "wrong"
        assert server.ask(COMMANDS + "stop", "POST", body={}).status == 403
        server.csrf = csrf
        assert server.ask(COMMANDS + "stop", "POST", body={}, headers={"origin": "http://evil.example"}).status == 403
        assert server.ask(COMMANDS + "stop", "POST", body={}, headers={"content-type": "text/plain"}).status == 415
        assert server.ask(COMMANDS + "shutdown", "POST", body={}).status == 404
        assert server.ask(COMMANDS + "export", "POST", body={"out": "/tmp/x"}).status == 400
        assert server.ask(COMMANDS + "set", "POST", body={"values": {}}).status == 400
        assert server.ask(COMMANDS + "stop").status == 405
        read_only = serve(runs)
        read_only.enter()
        assert read_only.ask(COMMANDS + "pause", "POST", body={}).status == 403
    assert [each["type"] for each in heard if each["type"] != "subscribe"] == []


def test_a_command_to_a_run_that_nobody_runs_says_so(serve: Serve, runs: Path) -> None:
    server = serve(runs, control=True)
    server.enter(server.site.sessions.control_token)
    reply = server.ask(COMMANDS + "pause", "POST", body={}).json
    assert not reply["is_done"]
    assert "resume" in reply["message"]
