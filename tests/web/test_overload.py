"""More than a server can take: connections, slow requests, readers that do not read, a run that floods."""

from __future__ import annotations

import json
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.web.conftest import Serve, Server
from tests.web.test_news import Stream, message, talking

from ludus.bench.web_server import web_server
from ludus.http import deadlines
from ludus.web.security import bodies
from ludus.web.static_page import BUILT, INDEX

CONNECTIONS = 1000
DEADLINE_S = 30.0
FLOOD_S, FLOOD_PER_S = 4, 100_000
FLOOD = """
import os, socket, sys, time
from pathlib import Path
from ludus.daemon.messages import EventNews, LogLine
from ludus.daemon.protocol import write_message
from ludus.storage.lock import RunLock

run, seconds, per_s = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
with RunLock(run), socket.socket(socket.AF_UNIX) as door:
    os.chdir(run)
    door.bind("control.sock")
    door.listen(4)
    print("open", flush=True)
    link, _ = door.accept()
    batch = write_message(EventNews(event="tick", fields={"reward": 0.75, "plies": 41})) * (per_s // 100)
    began, worst = time.monotonic(), 0.0
    for number in range(100 * seconds):
        time.sleep(max(0.0, began + number / 100 - time.monotonic()))
        at = time.monotonic()
        link.sendall(batch)
        worst = max(worst, time.monotonic() - at)
    link.sendall(write_message(LogLine(line="the flood is over")))
    print(worst, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for both ends of every connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3 * CONNECTIONS:
        pytest.skip(f"needs {3 * CONNECTIONS} open files; raise the limit with: ulimit -Hn {3 * CONNECTIONS}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * CONNECTIONS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _until_answered(server: Server, path: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        try:
            if server.ask(path).status == 200:
                return
        except OSError:
            continue
    raise AssertionError(f"{path} is not answered any more")


def _is_hung_up(link: socket.socket) -> bool:
    try:
        return link.recv(100) == b""
    except ConnectionError:
        return True


@pytest.mark.usefixtures("many_files")
def test_a_thousand_connections_are_refused_and_let_go_and_no_run_hears_of_them(
    serve: Serve, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "HEAD_S", 2.0)
    server, attached = serve(runs), list[socket.socket]()
    with talking(runs / "study" / "kuhn", attached.append), ExitStack() as stack:
        for number in range(CONNECTIONS):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S))
            link.sendall((b"", b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"POST")[number % 3])
        assert server.ask("/api/runs").status == 503
        _until_answered(server, "/api/runs")  # while they are all open at their end
        assert _is_hung_up(link), "who says nothing is left"
    assert attached == []


def test_a_head_or_a_body_that_trickles_in_is_given_up(
    serve: Serve, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "HEAD_S", 1.0)
    monkeypatch.setattr(bodies, "BODY_S", 0.5)
    server = serve(runs)
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as link:
        end, answer = time.monotonic() + DEADLINE_S, b"?"
        link.settimeout(0.2)
        link.sendall(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nx: ")
        while answer and time.monotonic() < end:
            try:
                link.sendall(b"a")
                answer = link.recv(100)
            except TimeoutError:
                continue
            except OSError:
                answer = b""
        assert answer == b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as link:
        head = f"POST /api/session HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        link.sendall(head.encode() + b"Content-Length: 20\r\n\r\n{")
        assert link.recv(1000).split(b"\r\n")[0].split()[1] == b"408"
    assert server.ask("/api/runs").status == 200


def test_readers_that_do_not_read_hold_up_nobody(serve: Serve, runs: Path) -> None:
    goes_on = threading.Event()

    def talk(link: socket.socket) -> None:
        link.sendall(message("status", stage="TRAINING", steps=1))
        lines = message("log", line="x" * 3000) * 400
        for _ in range(20):
            link.sendall(lines)
        link.sendall(message("log", line="the last"))
        goes_on.wait(DEADLINE_S)

    server = serve(runs)
    with talking(runs / "study" / "kuhn", talk), ExitStack() as stack:
        for _ in range(20):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", server.port))
            deaf.sendall(b"GET /api/news?run=study%2Fkuhn HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        stream = Stream(server)
        stream.until(lambda told: any("the last" in line["text"] for line in told.get("log", {}).get("lines", [])))
        stream.close()
        assert server.ask("/api/runs").status == 200
        goes_on.set()


def test_a_run_that_is_deleted_while_it_is_followed_is_left(serve: Serve, runs: Path) -> None:
    server, gone = serve(runs), threading.Event()

    def talk(link: socket.socket) -> None:
        link.sendall(message("status", stage="TRAINING", steps=3))
        gone.wait(DEADLINE_S)

    with talking(runs / "study" / "kuhn", talk):
        stream = Stream(server)
        stream.until(lambda told: told.get("status", {}).get("steps") == 3)
        kept = runs.parent / "control.sock"
        (runs / "study" / "kuhn" / "control.sock").rename(kept)
        shutil.rmtree(runs / "study" / "kuhn")
        gone.set()
        stream.until(lambda told: told["connection"]["state"] in ("lost", "left"))
        stream.close()
        assert server.ask("/api/runs/study%2Fkuhn").status == 404
        assert server.get("/api/runs")["rows"] == []
        (runs / "study" / "kuhn").mkdir()
        kept.rename(runs / "study" / "kuhn" / "control.sock")


@pytest.mark.slow
def test_a_flood_of_a_hundred_thousand_messages_a_second_is_counted_and_costs_little_memory(runs: Path) -> None:
    if not (BUILT / INDEX).is_file():
        pytest.skip("needs the page; build it with: make web")
    run, pipe = runs / "study" / "kuhn", subprocess.PIPE
    command = [sys.executable, "-c", FLOOD, str(run), str(FLOOD_S), str(FLOOD_PER_S)]
    with (
        subprocess.Popen(command, stdout=pipe, stdin=pipe, text=True) as flood,
        web_server(runs) as web,
    ):
        assert flood.stdout is not None
        assert flood.stdin is not None
        assert flood.stdout.readline() == "open\n"
        server = Server(int(web.origin.rpartition(":")[2]), site=None)  # type: ignore[arg-type]
        server.get("/api/runs")
        before = web.resident_bytes()
        stream = Stream(server)
        slowest = 0.0
        while (told := _next(stream)) and not any("flood is over" in text for text in _texts(told)):
            assert len(_texts(told)) <= 500
            at = time.monotonic()
            assert server.ask("/api/runs").status == 200
            slowest = max(slowest, time.monotonic() - at)
        skipped = told["connection"]["skipped"]["event"]
        stream.close()
        flood.stdin.close()
        print(f"held up for {float(flood.stdout.readline()):.2f} s at most; slowest answer {slowest:.2f} s")
        assert 100_000 < skipped <= FLOOD_S * FLOOD_PER_S
        assert web.resident_bytes() - before < 60_000_000
        assert slowest < 5.0


def _next(stream: Stream) -> dict[str, dict[str, dict[str, int]]]:
    return stream.until(lambda told: True)


def _texts(told: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    return [json.dumps(line) for line in told.get("log", {}).get("lines", {})]
