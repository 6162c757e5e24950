"""Metrics to Weights & Biases, under the same names, over environment steps.

The package never enters the process that trains: it runs in a child (`wandb_child.py`), so that neither its start, nor
its threads, prints, hooks or hangs can touch training, and so that it can be killed. A resumed run goes on as the same
Weights & Biases run; its id is in the run directory. When the server cannot be had, the run goes on offline, and
`wandb sync` uploads it later.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ludus.config import WandbConfig
from ludus.errors import CorruptRecord
from ludus.storage.atomic import read_json, write_json
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry.sinks import LinesLost
from ludus.telemetry.wandb_child import kill_children

log = logging.getLogger(__name__)

FINISH_S = 8.0
"""From the last line to the end of the child; what is not uploaded by then stays on disk, for `wandb sync`."""
UPLOAD_S = 4.0
STALL_S = 60.0
"""A process that takes nothing for so long counts as hung."""
_CHUNK = 1 << 16


class WandbProcess:
    """The child, from its first line to its end: lines go in, news come out.

    Nobody waits for it longer than said; killed, it takes wandb's own processes with it.
    """

    def __init__(self, order: Mapping[str, Any], log: Path) -> None:
        """Start it, with the arguments of `wandb.init`; what wandb prints is appended to `log`."""
        with contextlib.ExitStack() as stack:
            stderr = stack.enter_context(log.open("ab")) if log.parent.is_dir() else subprocess.DEVNULL
            self._child = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("wandb_child.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
        for pipe in (self._child.stdin, self._child.stdout):
            os.set_blocking(_number(pipe), False)
        self._pending = b""
        self.in_flight = 0
        """Metric lines that were sent and not yet logged."""
        self.warning = ""
        """What made wandb go on without its server."""
        self.error = ""
        self.is_finished = False
        """Everything has been logged, and uploaded as far as the mode says so."""
        self.send(order)

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._child.poll() is not None

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            OSError: it is gone, or it took nothing for `STALL_S`.
        """
        rest = memoryview(json.dumps(message).encode() + b"\n")
        self.in_flight += "metrics" in message
        deadline = time.monotonic() + STALL_S
        while rest:
            self.listen()
            poller = select.poll()  # unlike `select`, for any number of open files
            poller.register(_number(self._child.stdin), select.POLLOUT)
            if not poller.poll(1000 * max(deadline - time.monotonic(), 0.0)):
                raise TimeoutError(f"Weights & Biases took nothing for {STALL_S:.0f} s")
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(_number(self._child.stdin), rest) :]

    def listen(self) -> None:
        """Take in what it has said so far."""
        with contextlib.suppress(BlockingIOError):
            while heard := os.read(_number(self._child.stdout), _CHUNK):
                self._pending += heard
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            self._note(json.loads(line))

    def finish(self, timeout_s: float) -> None:
        """Let it log what it has, upload, and end; after the timeout it is killed."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout_s)
        self.listen()
        self.kill()

    def kill(self) -> None:
        """End it at once, and what it has started. May be called from any thread, and again."""
        if self._child.poll() is None:
            kill_children(self._child.pid)
            self._child.kill()
        self._child.wait()

    def release(self) -> None:
        """Close the pipes."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def _note(self, news: Mapping[str, Any]) -> None:
        self.in_flight -= int(news.get("logged", 0))
        self.warning = news.get("warning", self.warning)
        self.error = news.get("error", self.error)
        self.is_finished = news.get("finished", self.is_finished)


class WandbSink:
    """One Weights & Biases run. Its child is started by the first line, in the sink's thread."""

    name = "wandb"

    def __init__(self, run: RunDirectory, config: WandbConfig, *, run_name: str, values: Mapping[str, Any]) -> None:
        """A sink for a run; `values` is the run's config, which is sent along."""
        self._run = run
        self._config = config
        self._run_name = run_name
        self._values = dict(values)
        self._child: WandbProcess | None = None
        self._is_abandoned = False
        self._exit_code = 0
        self._warned = ""

    @property
    def pid(self) -> int | None:
        """The process that runs Weights & Biases; None before the first line, and after the last."""
        child = self._child
        return None if child is None else child.pid

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Pass one line on; a child that has died costs what it had not logged yet."""
        self._send({"metrics": {"step": step, **{name: float(value) for name, value in values.items()}}})

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Only whether the run failed matters to Weights & Biases."""
        if kind == "failed":
            self._exit_code = 1

    def close(self) -> None:
        """Let the child finish; what it could not log or upload in time is said."""
        child, self._child = self._child, None
        if child is None:
            return
        try:
            if not child.has_ended:
                child.send({"exit_code": self._exit_code})
                child.finish(FINISH_S)
            self._warn_once(child)
            if not child.is_finished:
                raise LinesLost(f"{child.error or 'it did not finish in time'}; {self._advice}", lines=child.in_flight)
        finally:
            child.kill()
            child.release()

    def abandon(self) -> None:
        """Kill the child, for which somebody is waiting in vain."""
        self._is_abandoned = True
        if (child := self._child) is not None:
            child.kill()

    def _send(self, message: Mapping[str, Any]) -> None:
        child = self._child
        if child is None:
            child = self._child = WandbProcess(self._order(), self._run.logs / "latest" / "wandb.log")
            if self._is_abandoned:  # in the meantime
                child.kill()
        try:
            if child.has_ended:
                raise BrokenPipeError("the child has ended")
            child.send(message)
        except OSError as error:
            self._child = None
            child.kill()
            child.listen()
            child.release()
            raise LinesLost(child.error or str(error), lines=child.in_flight) from error
        self._warn_once(child)

    def _warn_once(self, child: WandbProcess) -> None:
        if child.warning and child.warning != self._warned:
            self._warned = child.warning
            log.warning("Weights & Biases goes on offline: %s; %s", child.warning, self._advice)

    def _order(self) -> dict[str, Any]:
        config, is_known = self._config, self._run.wandb_id.is_file()
        init = {
            "project": config.project,
            "entity": config.entity,
            "mode": config.mode,
            "tags": list(config.tags),
            "group": config.group,
            "id": run_id(self._run),
            # What goes on is appended when it is uploaded later; a first start may be uploaded again and again.
            "resume": "allow" if is_known else None,
            "allow_val_change": True,
            "name": self._run_name,
            "dir": str(self._run.path.resolve()),
            "config": self._values,
        }
        settings = {
            "console": "off",
            "finish_timeout": UPLOAD_S,
            "finish_timeout_raises": True,
            "program": "ludus",
            "x_stats_pid": os.getpid(),
            "x_transaction_log_flush_interval": 1.0,
        }
        return {"init": init, "settings": settings, "finish_s": FINISH_S}

    @property
    def _advice(self) -> str:
        return f"upload it later with: wandb sync --include-online {self._run.wandb / '*run-*'}"


def run_id(run: RunDirectory) -> str:
    """The id of the Weights & Biases run that belongs to a run; made on its first start."""
    try:
        known = read_json(run.wandb_id, most_bytes=65536) if run.wandb_id.is_file() else {}
    except CorruptRecord as error:
        log.warning("%s cannot be read (%s); Weights & Biases gets a new run", run.wandb_id, error)
        known = {}
    if not isinstance(known, dict) or not isinstance(known.get("id"), str):
        known = {"id": secrets.token_hex(4)}
        write_json(run.wandb_id, known)
    return str(known["id"])


def _number(pipe: Any) -> int:
    return int(pipe.fileno())
