"""A page of shared memory in which a worker shows signs of life.

The supervisor can read it while the worker is stuck in native code or stopped, which no message could tell. Writing
costs about a tenth of a microsecond, so a runner ticks at every move.
"""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np

WORDS = 8
TICKS, TASK, BUSY, BEATS = 0, 1, 2, 3
CPU_MS = 4
"""CPU time of a worker on another machine, told from there."""
NODE_LOAD = 5
"""Load of that machine for each core, in thousandths and one more; 0: not told."""
WAITS = 6
"""Counts while the worker waits for a place to run: it lives, and its start is still to come."""
NO_TASK = -(2**63)


class Pulse:
    """Tick counter, task in hand, busy flag and heartbeat of one worker."""

    def __init__(self, fd: int | None = None) -> None:
        """Make a new page, or map the one that was inherited as `fd`."""
        if fd is None:
            with tempfile.TemporaryFile() as page:
                page.truncate(WORDS * 8)
                fd = os.dup(page.fileno())
        self.fd = fd
        self.words = np.frombuffer(mmap.mmap(fd, WORDS * 8), dtype=np.int64)
        """`[ticks, task, busy, ...]`; hot loops write it directly."""

    def tick(self) -> None:
        """Show progress."""
        self.words[TICKS] += 1

    def beat(self) -> None:
        """Show that the process lives, whatever it is doing."""
        self.words[BEATS] += 1

    def working_on(self, task: int) -> None:
        """Say which task is about to run code that may not come back."""
        self.words[TASK] = task

    def set_busy(self, busy: bool) -> None:
        """Say whether progress is to be expected."""
        self.words[BUSY] = busy

    @property
    def ticks(self) -> int:
        """Progress so far."""
        return int(self.words[TICKS])

    def wait(self) -> None:
        """Show that there is no place for it yet."""
        self.words[WAITS] += 1

    @property
    def waits(self) -> int:
        """How often it was shown that there is no place for it; 0 once it has one."""
        return int(self.words[WAITS])

    @property
    def beats(self) -> int:
        """Heartbeats so far; 0 before the worker is connected."""
        return int(self.words[BEATS])

    @property
    def task(self) -> int:
        """Task in hand, or NO_TASK."""
        return int(self.words[TASK])

    @property
    def is_busy(self) -> bool:
        """Whether progress is to be expected."""
        return bool(self.words[BUSY])

    def close(self) -> None:
        """Give the descriptor back; the mapping lives until it is collected."""
        os.close(self.fd)
