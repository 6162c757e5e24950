"""What a page costs the run that it shows, and what the memory of server and tab does over a time of live news.

The cost is that of a run that trains (the one of `ludus bench watch`), counted in its steps per CPU-second, with and
without a server and a page, in turn. Memory is looked at while a process says what a busy run says: as a module, this
is that process: `python -m ludus.bench.web_live RUN SECONDS`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from ludus.bench.chromium import Chromium, open_chromium
from ludus.bench.measuring import Figure
from ludus.bench.watch import PEER, UNIT, steps_and_cpu_s, training_run
from ludus.bench.web_pages import TimedPage
from ludus.bench.web_runs import make_live_run
from ludus.bench.web_server import WebServer, web_server
from ludus.storage.jsonl import JsonlWriter
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory

SETTLE_S = 3.0
LEAST_RATIO = 0.98
SERVER_MB, TAB_MB = 200.0, 300.0
FLAT_MB = {"server": 20.0, "tab": 30.0}
"""What the last quarter may have more than the second. The server keeps 12 bytes of each metric point, up to six
million of them: the run here adds 4 MB in half an hour. A tab's heap is swept now and then."""
FLAT_FROM_MINUTES = 20.0
NEWS_PER_S = 10
EVENTS, LINES = 3, 2
"""Of each, in one tenth of a second, beside a line of metrics."""
LIVE_SHOWN = "document.querySelector('ul.loop')"
VIEWS = ("", "/curves", "/log")
VIEW_S = 20.0
LOOK_S = 1.0
WARM_UP = 0.25
"""Share of the time after which memory should not grow any more."""


def bench_cost(folder: Path, chromium: str | None, *, rounds: int, seconds: float) -> list[Figure]:
    """Steps per CPU-second with a page open, and without a server."""
    if chromium is None:
        return []
    sides: dict[bool, list[float]] = {True: [], False: []}
    with training_run(folder) as (pid, run), open_chromium(chromium) as browser:
        for number in range(2 * rounds):
            is_watched = number % 4 in (1, 2)  # neither side always comes first
            print(f"cost, side {number + 1} of {2 * rounds}", file=sys.stderr)
            with _page_open(browser, run) if is_watched else contextlib.nullcontext():
                time.sleep(SETTLE_S)
                steps, cpu_s = steps_and_cpu_s(pid, run)
                time.sleep(seconds)
                steps_after, cpu_after_s = steps_and_cpu_s(pid, run)
            sides[is_watched].append((steps_after - steps) / (cpu_after_s - cpu_s))
    watched, alone = median(sides[True]), median(sides[False])
    return [
        Figure.against("web, one page open", watched, UNIT, PEER, alone),
        Figure.bounded("web, cost of one page", 100 * (1 - watched / alone), "% of steps per CPU-second", most=2.0),
    ]


@contextlib.contextmanager
def _page_open(browser: Chromium, run: Path) -> Iterator[None]:
    with web_server(run) as server:
        page = TimedPage(browser, server.origin)
        page.open(f"/run/{run.name}", LIVE_SHOWN)
        try:
            yield
        finally:
            page.close()


def bench_memory(folder: Path, chromium: str | None, *, minutes: float) -> list[Figure]:
    """The most memory that server and tab take, and how much they grow once they are warm."""
    if chromium is None or minutes <= 0:
        return []
    run = make_live_run(folder / "live")
    command = [sys.executable, "-P", "-m", "ludus.bench.web_live", str(run.path), str(60 * minutes + 120)]
    process = subprocess.Popen(command)
    try:
        with web_server(run.path) as server, open_chromium(chromium) as browser:
            return _memory_figures(_watch_memory(server, browser, run.path.name, minutes), minutes)
    finally:
        process.terminate()
        process.wait()


def _watch_memory(server: WebServer, browser: Chromium, run: str, minutes: float) -> list[tuple[float, float]]:
    """MB of server and tab, each second, while one page after the other is looked at."""
    page = TimedPage(browser, server.origin)
    page.open(f"/run/{run}", LIVE_SHOWN)
    found: list[tuple[float, float]] = []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < 60 * minutes:
        view = f"/run/{run}{VIEWS[int(passed / VIEW_S) % len(VIEWS)]}"
        page.follow(view)
        found.append((server.resident_bytes() / 1e6, browser.resident_bytes("renderer") / 1e6))
        time.sleep(LOOK_S)
    return found


def _memory_figures(found: list[tuple[float, float]], minutes: float) -> list[Figure]:
    figures = []
    for place, (name, most) in enumerate((("server", SERVER_MB), ("tab", TAB_MB))):
        megabytes = [each[place] for each in found]
        part = max(1, int(len(megabytes) * WARM_UP))
        growth = median(megabytes[-part:]) - median(megabytes[part : 2 * part])
        figures += [
            Figure.bounded(f"web, {name}, {minutes:g} minutes of news", max(megabytes), "MB", most=most),
            Figure.bounded(
                f"web, {name}, growth from the second quarter to the last",
                growth,
                "MB",
                most=FLAT_MB[name] if minutes >= FLAT_FROM_MINUTES else None,
            ),
        ]
    return figures


def tell_news(run: RunDirectory, seconds: float) -> None:
    """Be a busy run: hold its lock, write its files, and tell whoever attaches."""
    with RunLock(run.path), socket.socket(socket.AF_UNIX) as door:
        os.chdir(run.path)  # paths of sockets are short
        with contextlib.suppress(FileNotFoundError):
            run.control.unlink()
        door.bind(run.control.name)
        door.listen(4)
        door.setblocking(False)
        with JsonlWriter(run.metrics) as metrics, JsonlWriter(run.events) as events:
            _tell(door, metrics, events, seconds)


def _tell(door: socket.socket, metrics: JsonlWriter, events: JsonlWriter, seconds: float) -> None:
    from ludus.bench.web_runs import NAMES
    from ludus.daemon.messages import EventNews, LogLine, ProgressNews, RoomStatus, Status
    from ludus.daemon.protocol import write_message

    links: list[socket.socket] = []
    began = time.monotonic()
    for number in range(int(seconds * NEWS_PER_S)):
        step, uptime_s = 1000 * number, number / NEWS_PER_S
        values: dict[str, float | None] = {name: (number * 7919 % 1000) / 1000 for name in NAMES}
        metrics.write({"time": time.time(), "step": step, **values})
        events.write({"time": time.time(), "event": "published", "run": "live", "policy": f"main@{number}"})
        room = RoomStatus(name="explore", unit="episodes", rate=1000.0, total=number, load=0.5)
        status = Status(stage="TRAINING", run="live", uptime_s=uptime_s, rooms=(room,), steps=step)
        told = [write_message(status), write_message(ProgressNews(step=step, metrics=values))]
        told += [write_message(EventNews(event="published", fields={"policy": f"main@{number}"}))] * EVENTS
        told += [write_message(LogLine(line=f"update {number}: reward 0.75, 41 plies"))] * LINES
        links = [*_sent(links, b"".join(told)), *_welcomed(door)]
        time.sleep(max(0.0, began + (number + 1) / NEWS_PER_S - time.monotonic()))


def _welcomed(door: socket.socket) -> list[socket.socket]:
    try:
        link, _ = door.accept()
    except BlockingIOError:
        return []
    link.setblocking(True)
    return [link]


def _sent(links: list[socket.socket], data: bytes) -> list[socket.socket]:
    """Those who took it."""
    took = []
    for link in links:
        try:
            link.sendall(data)
            took.append(link)
        except OSError:
            link.close()
    return took


if __name__ == "__main__":
    tell_news(RunDirectory(Path(sys.argv[1])), float(sys.argv[2]))
