"""A daemon that never stops talking, and the real dashboard with it as its daemon. Run as a module.

`flood RATE SECONDS` writes so many events a second, and a status each second; `dashboard RATE SECONDS`, in a terminal,
shows them and says at the end what it read.
"""

from __future__ import annotations

import json
import sys
import time

from ludus.daemon.messages import EventNews, RoomStatus, Status
from ludus.daemon.protocol import write_message

BATCHES_PER_S = 100


def flood(rate: int, seconds: float) -> None:
    """Write until the time is over; whoever does not read in time makes us fall behind, and nothing is left out."""
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
    """Show the flood until somebody quits."""
    from ludus.monitor.live_sources import ChildSource
    from ludus.tui.app import Dashboard

    command = [sys.executable, "-m", "ludus.bench.flood", "flood", str(rate), str(seconds)]
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
