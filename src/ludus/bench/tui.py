"""`ludus bench tui`: how long a key takes to show while a daemon says 100,000 things a second, and what memory does.

The real dashboard runs in a terminal of its own (a pty); keys switch panes, and the time is taken until the bytes of
the new pane have come back. Its daemon is a flood: so many events a second, and a status each second. As a module, this
is either of them: `python -m ludus.bench.tui dashboard|flood RATE SECONDS`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field

from ludus.bench.measuring import Figure
from ludus.errors import LudusError

EVENTS_PER_S = 100_000
BATCHES_PER_S = 100
WARM_UP_S = 3.0
KEYS = ((b"2", b"training time"), (b"1", b"dropped"))
"""A key, and what only its pane shows."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Flooded:
    """What one flood showed."""

    echoes_s: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    received: int = 0


def bench_tui(*, rounds: int, seconds: float) -> list[Figure]:
    """Flood the dashboard `rounds` times; the worst key of all, the median, and how memory grew after the warm-up."""
    found = [_flooded(max(seconds, 5.0)) for _ in range(rounds)]
    echoes = [echo for each in found for echo in each.echoes_s]
    growth = max(each.memory_bytes[-1] - each.memory_bytes[0] for each in found)
    return [
        Figure.alone("tui, worst key echo in a flood", 1000 * max(echoes), "ms"),
        Figure.alone("tui, median key echo in a flood", 1000 * statistics.median(echoes), "ms"),
        Figure.alone("tui, messages read", min(each.received for each in found) / max(seconds, 5.0), "per second"),
        Figure.alone("tui, memory growth in a flood", growth / 1e6, "MB"),
        Figure.alone("tui, memory in a flood", max(each.memory_bytes[-1] for each in found) / 1e6, "MB"),
    ]


def _flooded(seconds: float) -> Flooded:
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-P", "-m", "ludus.bench.tui", "dashboard", str(EVENTS_PER_S), str(seconds)]
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True
    )
    os.close(terminal)
    try:
        return _press_keys(main, process, seconds)
    finally:
        process.kill()
        process.wait()
        os.close(main)


def _press_keys(main: int, process: subprocess.Popen[bytes], seconds: float) -> Flooded:
    """Keys while the flood lasts, then ctrl+c; what it says at its end is its last line."""
    found = Flooded()
    _await(main, b"tick|explore", 30.0)
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds - 0.5:
        for key, shown in KEYS:
            pressed = time.monotonic()
            os.write(main, key)
            _await(main, shown, 10.0)
            if passed > WARM_UP_S:
                found.echoes_s.append(time.monotonic() - pressed)
            _drain(main, 0.15)
        if passed > WARM_UP_S:
            found.memory_bytes.append(_resident(process.pid))
    os.write(main, b"\x03")
    found.received = json.loads(re.findall(rb"\{.*?\}", _await(main, rb'\{"received.*?\}', 30.0))[-1])["received"]
    return found


def _await(main: int, pattern: bytes, seconds: float) -> bytes:
    """Read what the dashboard writes until a pattern has come."""
    seen, deadline = b"", time.monotonic() + seconds
    while not re.search(pattern, seen):
        if time.monotonic() > deadline:
            raise LudusError(f"the dashboard did not show {pattern!r} within {seconds} s")
        seen += _drain(main, 0.05)
    return seen


def _drain(main: int, seconds: float) -> bytes:
    """What comes within a time; returns at once when something is there."""
    if not select.select([main], [], [], seconds)[0]:
        return b""
    with contextlib.suppress(OSError):  # the other side of a terminal is gone
        return os.read(main, 1 << 20)
    return b""


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * PAGE_BYTES


def flood(rate: int, seconds: float) -> None:
    """Write until the time is over; whoever does not read in time makes us fall behind, and nothing is left out."""
    from ludus.daemon.messages import EventNews, RoomStatus, Status
    from ludus.daemon.protocol import write_message

    event = write_message(EventNews(event="tick", fields={"episode": "8f2c11d0a3", "reward": 0.75, "plies": 41}))
    batch = event * (rate // BATCHES_PER_S)
    room = RoomStatus(name="explore", unit="episodes", rate=float(rate), total=0, load=0.5)
    began = time.monotonic()
    for number in range(int(seconds * BATCHES_PER_S)):
        if number % BATCHES_PER_S == 0:
            status = Status(stage="TRAINING", run="flood", uptime_s=number / BATCHES_PER_S, rooms=(room,))
            sys.stdout.buffer.write(write_message(status))
        sys.stdout.buffer.write(batch)
        sys.stdout.buffer.flush()
        time.sleep(max(0.0, began + (number + 1) / BATCHES_PER_S - time.monotonic()))


def show(rate: int, seconds: float) -> None:
    """Show the flood until somebody quits, then say what was read."""
    from ludus.monitor.live_sources import ChildSource
    from ludus.tui.app import Dashboard

    command = [sys.executable, "-P", "-m", "ludus.bench.tui", "flood", str(rate), str(seconds)]
    source = ChildSource(command, graces_s=(0.1, 5.0, 5.0))
    dashboard = Dashboard(source)
    try:
        dashboard.run()
    finally:
        source.close()
    news = dashboard.message_queue.drain()
    print(json.dumps({"received": news.received, "skipped": news.losses.skipped_in_all}))


if __name__ == "__main__":
    try:
        {"flood": flood, "dashboard": show}[sys.argv[1]](int(sys.argv[2]), float(sys.argv[3]))
    except BrokenPipeError:
        sys.exit(0)
