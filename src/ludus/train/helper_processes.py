"""The processes beside trainer 0 that share its minibatches: started by it, ended with it.

Invariant: a helper lives as long as its standard input is open, which this process holds. When one is lost this process
ends too, so that whoever supervises it replaces all of them together.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from ludus.errors import WorkerError
from ludus.plugins import plugin_files

log = logging.getLogger(__name__)

HELPER = "ludus.train.parallel_helper"
START_DEADLINE_S = 300.0
_FAREWELL_S = 10.0
_POLL_S = 0.05
_LOSS_S = 5.0
"""A connection that breaks is noticed before the end of the process that held it: how long to look for the latter."""


class HelperProcesses:
    """Trainers 1, 2, ...: those that this process has started."""

    def __init__(self, setups: Sequence[Mapping[str, Any]], *, descriptors: Sequence[int] = ()) -> None:
        """Start a helper with each setup; `descriptors` has one for each to inherit, or none."""
        self.processes = [_start(setup, descriptors[place : place + 1]) for place, setup in enumerate(setups)]

    def await_all(self, is_ready: Callable[[int], bool]) -> None:
        """Wait until `is_ready(rank)` of all. Raises WorkerError if one ends or takes too long; all are gone then."""
        deadline = time.monotonic() + START_DEADLINE_S
        for rank, helper in enumerate(self.processes, start=1):
            while not is_ready(rank):
                if helper.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    raise WorkerError(f"trainer {rank} of {len(self.processes) + 1} did not start; its log says why")
                time.sleep(_POLL_S)

    def give_up(self, error: Exception) -> NoReturn:
        """End this process if a helper is lost, which is what the error must come from; else raise the error."""
        end = time.monotonic() + _LOSS_S
        while not (lost := [rank for rank, one in enumerate(self.processes, start=1) if one.poll() is not None]):
            if time.monotonic() > end:
                raise error
            time.sleep(_POLL_S)
        log.error("trainer %s ended; ending too, to be started again together (%s)", lost[0], error)
        raise SystemExit(1) from error

    def end(self) -> None:
        """Give helpers that were told to stop the time to do so, then make sure."""
        for helper in self.processes:
            with suppress(subprocess.TimeoutExpired):
                helper.wait(_FAREWELL_S)
        self.kill()

    def kill(self) -> None:
        """End all of them now."""
        for helper in self.processes:
            helper.kill()
            helper.wait()
            if helper.stdin is not None:
                helper.stdin.close()


def _start(setup: Mapping[str, Any], descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    helper = subprocess.Popen([sys.executable, "-P", "-m", HELPER], stdin=subprocess.PIPE, pass_fds=descriptors)
    if helper.stdin is None:
        raise OSError("a helper without standard input")
    helper.stdin.write(json.dumps({**setup, "plugins": plugin_files()}).encode() + b"\n")
    helper.stdin.flush()
    return helper
