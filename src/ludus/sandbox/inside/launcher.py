"""The launcher: makes the world, has the program run in it, watches it, and reports how it ended.

    parent ── launcher ── keeper (process 1 of the new world) ── program
    parent ── launcher ── program                                            where there are no namespaces

Invariant: only `program.run` executes what was handed in, after everything has been given up that it must not have; the
launcher and the keeper never do. If the parent goes, the launcher ends the program, and with the keeper all of its
world ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import Any, NoReturn

from ludus.sandbox.inside import namespaces
from ludus.sandbox.inside import system_calls as calls
from ludus.sandbox.inside.giving_up import check_given_up, give_up, set_limits
from ludus.sandbox.inside.running import run
from ludus.sandbox.inside.watching import Watch

Setup = dict[str, Any]

MOST_DESCRIPTORS = 256
"""The fork server has a handful, and new ones get the lowest free numbers."""


def launch(setup_fd: int, report_fd: int, life_fd: int, channels: list[int]) -> int:
    """Read what to do, do it, report it. In the program's process this returns the program's exit code."""
    with os.fdopen(setup_fd, "rb") as file:
        setup: Setup = {**json.load(file), "channels": channels}
    status_read, status_write = os.pipe()
    try:
        user = namespaces.leave() if setup["has_namespaces"] else os.getuid()
    except OSError as error:
        _tell(report_fd, {"broken": str(error)})
        return 0
    child = os.fork()
    if child == 0:
        os.close(status_read)
        _keep(setup, user, status_write) if setup["has_namespaces"] else _prepare(setup, status_write)
        return run(setup)
    os.close(status_write)
    ending = Watch(child, life_fd, setup).wait()
    with os.fdopen(status_read, "rb") as file:
        # The program's process, while it prepares, and the keeper may both have something to say; the first counts.
        told = file.readline()
    if setup["has_namespaces"] and not told and "ended" not in ending:
        told = b'{"broken": "its keeper died"}'
    _tell(report_fd, ending | (json.loads(told) if told else {}))
    return 0


def _keep(setup: Setup, user: int, status_fd: int) -> None:
    """Be process 1: build the root, start the program, wait for it, say how it ended. Returns in the program."""
    try:
        namespaces.build_root(readable=setup["readable"], disk_bytes=setup["disk_bytes"], user=user)
        namespaces.become_nobody(user)
        calls.prctl(calls.PR_SET_DUMPABLE, 0)
        # Last, because whoever takes another user's number loses it.
        calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        program = os.fork()
    except Exception as error:
        _break(status_fd, error)
    if program == 0:
        calls.prctl(calls.PR_SET_DUMPABLE, 1)
        _prepare(setup, status_fd)
        return
    while True:
        ended, status, used = os.wait4(-1, 0)
        if ended == program:
            break
    _tell(status_fd, {"status": status, "cpu_s": used.ru_utime + used.ru_stime})
    os._exit(0)


def _prepare(setup: Setup, status_fd: int) -> None:
    """Give up what the program must not have, and make sure that it is gone."""
    try:
        give_up(setup)
        set_limits(setup)
        check_given_up()
    except Exception as error:
        _break(status_fd, error)
    kept = {0, 1, 2, *setup["channels"]}
    for number in set(range(MOST_DESCRIPTORS)) - kept:
        with contextlib.suppress(OSError):
            os.close(number)
    _scrub(setup)


def _scrub(setup: Setup) -> None:
    """Leave nothing in the interpreter that tells of how it was started."""
    os.environ.clear()
    os.environ.update(setup["environment"])
    sys.argv = ["solution.py"]
    sys.path[:] = [path for path in sys.path if path != setup["source_root"]]
    sys.path += setup["packages"]
    for name in [name for name in sys.modules if name == "ludus" or name.startswith("ludus.")]:
        del sys.modules[name]


def _break(status_fd: int, error: Exception) -> NoReturn:
    _tell(status_fd, {"broken": str(error)})
    os._exit(1)


def _tell(fd: int, message: Setup) -> None:
    os.write(fd, json.dumps(message).encode() + b"\n")
