"""A file of lines that a daemon once wrote, shown again: for tests, pictures and reports of bugs."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

from ludus.daemon.messages import Payload
from ludus.monitor.lines import LineSplitter
from ludus.monitor.message_queue import MessageQueue, Reply
from ludus.monitor.source import Connection, refused

CHUNK_BYTES = 65536


class RecordedSource:
    """Replays a file from beginning to end, as fast as it is read or with a pause after each line."""

    owns_run = has_failed = False

    def __init__(self, path: Path, *, pause_s: float = 0.0) -> None:
        self._path = path
        self._pause_s = pause_s
        self._closed = threading.Event()
        self.is_through = threading.Event()
        """Set when the whole file has been shown."""
        self.connection = Connection(state="left", words=f"recording {path.name}")

    def start(self, message_queue: MessageQueue) -> None:
        """Begin to replay."""
        threading.Thread(target=self._replay, args=(message_queue,), name="recording", daemon=True).start()

    def send(self, command: Payload) -> Future[Reply]:
        """Refused: there is no run."""
        return refused("this is a recording; nobody is there who could do that")

    def close(self) -> str:
        """Stop replaying."""
        self._closed.set()
        return ""

    def hurry(self) -> None:
        """It never takes long."""

    def last_log(self) -> list[str]:
        """None of ours."""
        return []

    def _replay(self, message_queue: MessageQueue) -> None:
        splitter, counted = LineSplitter(), 0
        try:
            with self._path.open("rb") as file:
                while (chunk := file.read(CHUNK_BYTES)) and not self._closed.is_set():
                    for line in splitter.feed(chunk):
                        message_queue.take_lines([line])
                        if self._pause_s and self._closed.wait(self._pause_s):
                            return
                    message_queue.take_lines([], too_long=splitter.too_long - counted)
                    counted = splitter.too_long
            message_queue.take_lines(splitter.end())
        except OSError as error:
            self.connection = Connection(state="ended", words=f"{self._path} cannot be read: {error.strerror}")
        finally:
            self.is_through.set()
