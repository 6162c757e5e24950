"""Drive a run from a Python program: `ludus daemon` as a child, its replies and news as dictionaries.

with Driver(log=Path("daemon.log")) as daemon:
    daemon.ask("start_training", config="examples/connect_four.yaml")
    daemon.wait_for_stage("DONE")
    print(daemon.ask("export")["path"])
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from ludus.errors import LudusError

Message = dict[str, Any]

MOST_KEPT = 100_000
"""Messages that are remembered."""
PATIENCE_S = 120.0
END_S = 60.0


class Driver:
    """A daemon and a client that speaks to it. Leaving the block saves the run and ends the daemon."""

    def __init__(self, *arguments: str, log: Path, folder: Path | None = None, patience_s: float = PATIENCE_S) -> None:
        """Start a daemon in `folder`, which is where paths in messages begin.

        Args:
            arguments: further arguments of `ludus daemon`.
            log: the file that gets its standard error.
            folder: where it works. Default: where this process does.
            patience_s: how long to wait for a message before giving up.
        """
        self._patience_s = patience_s
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ludus.cli.app", "daemon", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=folder,
            )
        self._ids = count(1)
        self._arrived: queue.Queue[Message | None] = queue.Queue()
        self.messages: deque[Message] = deque(maxlen=MOST_KEPT)
        """All that it has said."""
        self.foreign: list[bytes] = []
        """Lines that were no JSON: there should be none."""
        self._reader = threading.Thread(target=self._read, name="daemon's words", daemon=True)
        self._reader.start()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            try:
                self.end(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self.process.stdin is None:
            raise LudusError("the daemon has no input")
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, type: str, id: str | int | None = None, **payload: Any) -> None:
        """Send a command and do not wait."""
        message = {"type": type, "payload": payload} | ({} if id is None else {"id": id})
        self.write(json.dumps(message).encode() + b"\n")

    def ask(self, type: str, **payload: Any) -> Message:
        """Send a command and wait for its result.

        Raises:
            LudusError: it was not carried out.
        """
        id = f"{type}-{next(self._ids)}"
        self.send(type, id, **payload)
        reply = self.wait_for(lambda message: message.get("id") == id)
        if reply["type"] == "error":
            raise LudusError(f"{type}: {reply['payload']['message']}")
        result: Message = reply["payload"]["result"]
        return result

    def wait_for(self, is_it: Callable[[Message], bool]) -> Message:
        """The first message from now on that is it.

        Raises:
            LudusError: it did not come in time, or the daemon has ended.
        """
        end = time.monotonic() + self._patience_s
        while True:
            try:
                message = self._arrived.get(timeout=max(end - time.monotonic(), 0.001))
            except queue.Empty:
                raise LudusError(f"the daemon did not say it within {self._patience_s:g} s; {self._state()}") from None
            if message is None:
                self._arrived.put(None)
                raise LudusError(f"the daemon has ended; {self._state()}")
            if is_it(message):
                return message

    def wait_for_stage(self, *stages: str) -> Message:
        """The payload of the first status from now on with one of these stages."""
        found = self.wait_for(lambda message: message["type"] == "status" and message["payload"]["stage"] in stages)
        payload: Message = found["payload"]
        return payload

    def end(self, timeout_s: float = END_S) -> int:
        """End its input and wait for its end; returns its exit code."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def _state(self) -> str:
        last = [
            f"{each['type']} {each.get('payload', {}).get('stage', '')}".strip() for each in list(self.messages)[-5:]
        ]
        log = self._log.read_text(errors="replace")[-2000:]
        return f"last messages: {', '.join(last) or 'none'}; its log ends with: {log}"

    def _read(self) -> None:
        if self.process.stdout is None:
            return
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                self.foreign.append(line)
                continue
            self.messages.append(message)
            self._arrived.put(message)
        self._arrived.put(None)
