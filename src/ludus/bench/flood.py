"""A daemon that never stops talking: so many events a second, and a status each second. Run as a module."""

from __future__ import annotations

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


if __name__ == "__main__":
    try:
        flood(int(sys.argv[1]), float(sys.argv[2]))
    except BrokenPipeError:
        sys.exit(0)
