"""A run that is driven by lines of JSON alone: start, wait for data, train, pause, checkpoint, export, stop.

    python examples/daemon/drive.py

Nothing of ludus is imported here: any language that can start a process and write JSON does the same. What is said is
printed as it goes over the pipes, `>` to the daemon and `<` from it (of statuses, those with another stage); the
explorer whose games are waited for is an ordinary run that is started beside it. Runs are made under `--out`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

FEED = Path(__file__).parents[1] / "feed"
LUDUS = [sys.executable, "-m", "ludus.cli.app"]


class Daemon:
    """A daemon at the other end of two pipes."""

    def __init__(self, folder: Path) -> None:
        log = (folder / "daemon.log").open("wb")
        self.process = subprocess.Popen(
            [*LUDUS, "daemon"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder
        )
        self._id = 0
        self._stage = ""

    def tell(self, type: str, **payload: Any) -> dict[str, Any]:
        """Send a command and wait for its reply."""
        self._id += 1
        message = {"type": type, "payload": payload, "id": self._id} if payload else {"type": type, "id": self._id}
        self._print(">", message)
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        reply = self._read(lambda found: found.get("id") == self._id)
        self._print("<", reply)
        if reply["type"] != "ack":
            sys.exit(f"{type} was refused: {reply['payload']['message']}")
        return reply

    def wait_for(self, stage: str, *, update: int = 0, cycles: int = 0) -> None:
        """Wait until the run is at a stage, at an update, and has done so many cycles."""

        def is_it(message: dict[str, Any]) -> bool:
            if message["type"] != "status" or message["payload"]["stage"] != stage:
                return False
            return message["payload"]["update"] >= update and message["payload"]["schedule"]["cycles"] >= cycles

        self._read(is_it)

    def end(self) -> int:
        """End its input; returns its exit code."""
        self.process.stdin.close()
        self._read(lambda found: False)
        return self.process.wait()

    def _read(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message["type"] == "status" and message["payload"]["stage"] != self._stage:
                self._stage = message["payload"]["stage"]
                self._print("<", message)
            if is_it(message):
                return message
        return {}

    @staticmethod
    def _print(direction: str, message: dict[str, Any]) -> None:
        """One line; of a status, what changes with the stage."""
        if message["type"] == "status" and "id" not in message:
            shown = {key: message["payload"][key] for key in ("stage", "update", "steps")}
            schedule = message["payload"]["schedule"]
            shown["schedule"] = {key: schedule[key] for key in ("cycles", "new_data", "data_to_wait", "updates")}
            message = {"type": "status", "payload": shown}
        print(direction, json.dumps(message), flush=True)


def main() -> None:
    """Drive a run, from its beginning to its end."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--out", type=Path, default=None, help="where the runs are made; default: a folder that is removed"
    )
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        daemon = Daemon(folder)
        daemon.tell("start_training", config=str(FEED / "trainer.yaml"), overrides=["train.steps=10000000"])
        daemon.wait_for("WAITING FOR DATA")
        explorer = subprocess.Popen([*LUDUS, "run", str(FEED / "explorer.yaml"), "--quiet"], cwd=folder)
        daemon.wait_for("TRAINING", update=1)
        daemon.tell("pause")
        daemon.wait_for("PAUSED")
        daemon.tell("checkpoint")
        daemon.tell("resume")
        daemon.wait_for("TRAINING", cycles=1)
        daemon.tell("export")
        daemon.tell("stop")
        daemon.wait_for("STOPPED")
        explorer.terminate()
        explorer.wait()
        sys.exit(daemon.end())


if __name__ == "__main__":
    main()
