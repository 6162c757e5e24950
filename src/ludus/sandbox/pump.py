"""Moves bytes between this process and programs that are not to be trusted: bounded, and never waiting for one of them.

Invariant: `run` returns when its condition holds, at its deadline, or when somebody calls `stop` from another thread.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CHUNK = 1 << 16


@dataclass(slots=True)
class Collected:
    """What has come out of a pipe: the first `most` bytes of it, less what was taken."""

    most: int
    content: bytearray = field(default_factory=bytearray)
    is_cut: bool = False
    """Whether there was more than there was room for."""
    is_closed: bool = False

    def add(self, chunk: bytes) -> None:
        """Keep what there is room for."""
        room = self.most - len(self.content)
        self.content += chunk[:room]
        self.is_cut |= len(chunk) > room

    def take_line(self) -> bytes | None:
        """The first line, which is taken out; None when there is no whole one yet."""
        end = self.content.find(b"\n")
        if end < 0:
            return None
        line = bytes(self.content[: end + 1])
        del self.content[: end + 1]
        return line


@dataclass(slots=True)
class Sending:
    """What is still to go into a pipe."""

    content: bytearray = field(default_factory=bytearray)
    is_last: bool = False
    """Whether the pipe is closed when all has gone."""


class Pump:
    """Reads and writes pipes in the calling thread. The pipes are closed with it."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._selector = selectors.DefaultSelector()
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._stop, selectors.EVENT_READ)
        self._readers: dict[int, Collected] = {}
        self._writers: dict[int, Sending] = {}

    def read(self, fd: int, most: int) -> Collected:
        """Collect what comes out of a pipe from now on."""
        os.set_blocking(fd, False)
        self._readers[fd] = Collected(most)
        self._selector.register(fd, selectors.EVENT_READ)
        return self._readers[fd]

    def open(self, fd: int) -> Sending:
        """Be ready to write into a pipe."""
        os.set_blocking(fd, False)
        self._writers[fd] = Sending()
        return self._writers[fd]

    def run(self, is_done: Callable[[], bool], ends: float) -> bool:
        """Move bytes until the condition holds; False if the time (`time.monotonic`) was up or somebody stopped it."""
        while not is_done():
            left = ends - time.monotonic()
            if left <= 0 or self.is_stopped:
                return False
            self._want_to_write()
            for key, _ in self._selector.select(left):
                self._move(key.fd)
        return True

    def stop(self) -> None:
        """Make `run` return, from any thread."""
        os.eventfd_write(self._stop, 1)

    def close(self) -> None:
        """Close all pipes."""
        for fd in [*self._readers, *self._writers]:
            self._drop(fd)
        self._selector.close()
        os.close(self._stop)

    def _want_to_write(self) -> None:
        """Wait for pipes to take bytes only while there are bytes for them."""
        for fd, sending in list(self._writers.items()):
            is_wanted = bool(sending.content) or sending.is_last
            if is_wanted and fd not in self._selector.get_map():
                self._selector.register(fd, selectors.EVENT_WRITE)
            elif not is_wanted and fd in self._selector.get_map():
                self._selector.unregister(fd)

    def _move(self, fd: int) -> None:
        if fd == self._stop:
            self.is_stopped = True
            return
        try:
            self._take(fd) if fd in self._readers else self._give(fd)
        except BlockingIOError:
            return
        except OSError:
            self._drop(fd)

    def _take(self, fd: int) -> None:
        chunk = os.read(fd, CHUNK)
        if chunk:
            self._readers[fd].add(chunk)
        else:
            self._drop(fd)

    def _give(self, fd: int) -> None:
        sending = self._writers[fd]
        if sending.content:
            del sending.content[: os.write(fd, sending.content[:CHUNK])]
        if sending.is_last and not sending.content:
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        reader = self._readers.pop(fd, None)
        if reader is not None:
            reader.is_closed = True
        self._writers.pop(fd, None)
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        os.close(fd)
