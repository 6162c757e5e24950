"""The fork server's process, and the launchers that it forks, one for each request that comes with descriptors.

    parent ── launcher ── keeper (process 1 of the new world) ── program
    parent ── launcher ── program                                            where there are no namespaces

A launcher makes the world, has the program run in it, watches it, and reports how it ended. Its descriptors are:
standard input, output and errors, the setup, the report, the life pipe, and the channels.

Invariant: only `running.run` executes what was handed in, after everything has been given up that it must not have; the
fork server, the launcher and the keeper never do. If the parent goes, the launcher ends the program, and with the
keeper all of its world ends.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from ludus.sandbox.inside import namespaces
from ludus.sandbox.inside import system_calls as calls
from ludus.sandbox.inside.giving_up import check_given_up, give_up, set_limits
from ludus.sandbox.inside.removal import remove_tree
from ludus.sandbox.inside.running import run

MOST_PASSED = 16
FIRST_CHANNEL = 6


def main() -> int:
    """Fork launchers until the other side is gone. In a program's process this returns the program's exit code."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    # Children that nobody waits for leave nothing behind.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Process 1 of a world ignores what its processes send it, as long as there is no handler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while True:
        request, fds, _, _ = socket.recv_fds(connection, 16, MOST_PASSED)
        if not request:
            return 0
        try:
            child = os.fork()
        except OSError as error:
            connection.send(str(error).encode()[:200])
            continue
        if child == 0:
            connection.close()
            return _become_launcher(fds)
        pidfd = os.pidfd_open(child)
        socket.send_fds(connection, [b"launched"], [pidfd])
        for fd in (*fds, pidfd):
            os.close(fd)


def _become_launcher(fds: list[int]) -> int:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for place, fd in enumerate(fds[:3]):
        os.dup2(fd, place)
        os.close(fd)
    setup_fd, report_fd, life_fd = fds[3:FIRST_CHANNEL]
    return launch(setup_fd, report_fd, life_fd, fds[FIRST_CHANNEL:])


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


WATCH_S = 0.05


class Watch:
    """Waits for a child, or ends it."""

    def __init__(self, child: int, life_fd: int, setup: dict[str, Any]) -> None:
        self._child = child
        self._life_fd = life_fd
        self._memory_bytes = int(setup["memory_bytes"])
        self._disk_bytes = int(setup["disk_bytes"])
        self._work_dir = str(setup["work_dir"])
        self._ends = time.monotonic() + float(setup["wall_s"])
        self._page = os.sysconf("SC_PAGE_SIZE")

    def wait(self) -> dict[str, Any]:
        """Wait until the child has ended or was ended; says why, or how."""
        ended = os.pidfd_open(self._child)
        reason = ""
        while not reason and not select.select([ended, self._life_fd], [], [], WATCH_S)[0]:
            reason = self._reason()
        is_unwanted = bool(select.select([self._life_fd], [], [], 0)[0])
        if reason or is_unwanted:
            os.kill(self._child, signal.SIGKILL)
        _, status, used = os.wait4(self._child, 0)
        if is_unwanted:
            self._leave()
        if reason := reason or self._disk_reason():
            return {"ended": reason}
        return {"status": status, "cpu_s": used.ru_utime + used.ru_stime}

    def _leave(self) -> NoReturn:
        """The parent is gone, or needs no report: leave nothing behind."""
        if self._work_dir:
            remove_tree(self._work_dir)
        os._exit(0)

    def _reason(self) -> str:
        """Why the child must end now; empty if it need not."""
        if time.monotonic() >= self._ends:
            return "wall"
        if self._memory([self._child]) > self._memory_bytes:
            return "memory"
        return self._disk_reason()

    def _disk_reason(self) -> str:
        return "disk" if self._work_dir and _disk(self._work_dir) > self._disk_bytes else ""

    def _memory(self, family: list[int]) -> int:
        """Resident bytes of processes and all their descendants."""
        total = 0
        while family:
            pid = family.pop()
            try:
                with open(f"/proc/{pid}/statm") as file:
                    total += int(file.read().split()[1]) * self._page
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        family += map(int, file.read().split())
            except (OSError, IndexError, ValueError):
                continue  # it has ended meanwhile, or the kernel keeps no such list
        return total


HIDING = (errno.ENAMETOOLONG, errno.EACCES)


def _disk(folder: str) -> float:
    """Bytes in a folder and all below it; each entry counts a block, and what cannot be looked into without bound."""
    total, folders = 0.0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    total += 4096 + entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError as error:
            if error.errno in HIDING:
                return float("inf")
    return total
