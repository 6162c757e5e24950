"""`ludus web` as a process of its own, as users start it, and how long it takes to answer."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from ludus.errors import LudusError

ANSWER_S = 300.0


class WebServer:
    """A server that runs."""

    def __init__(self, origin: str, pid: int) -> None:
        self.origin = origin
        self.pid = pid

    def ask(self, path: str) -> float:
        """Milliseconds until an answer is there."""
        began = time.perf_counter()
        with urllib.request.urlopen(self.origin + path, timeout=ANSWER_S) as answer:  # noqa: S310  our own
            answer.read()
        return 1000 * (time.perf_counter() - began)

    def resident_bytes(self) -> int:
        """Its resident memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096


@contextlib.contextmanager
def web_server(folder: Path) -> Iterator[WebServer]:
    """A server over a folder that knows nothing yet, while the context is open."""
    command = [sys.executable, "-P", "-m", "ludus.cli.app", "web", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            found = re.search(r"http://\S+", process.stdout.readline() if process.stdout is not None else "")
            if found is None:
                raise LudusError("ludus web does not start; build its page first: make web")
            yield WebServer(found[0].rstrip("/"), process.pid)
        finally:
            process.terminate()
