"""The keeper: parent of the connection and of a cluster that is started, so that nothing of them outlives the loop.

It ends when the connection ends or when its life pipe closes, which is when the loop has ended, however. By then all
descendants are killed: processes whose own parent has gone come to the keeper, since it is their subreaper. Executed as
`python -m ludus.runtime.ray.keeper SOCKET LIFE FOLDER`. Not covered: a keeper that is killed itself.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SWEEP_S = 20.0
FAREWELL_S = 2.0
"""When it is not needed any more, the connection may take so long to leave the cluster."""


def main() -> None:
    """Entry point of the process."""
    sock, life, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    connection = subprocess.Popen(
        [sys.executable, "-P", "-m", "ludus.runtime.ray.connection", str(sock)], pass_fds=(sock,)
    )
    os.close(sock)
    pidfd = os.pidfd_open(connection.pid)
    waiting = select.poll()
    waiting.register(life, select.POLLIN)
    waiting.register(pidfd, select.POLLIN)
    waiting.poll()
    ending = select.poll()
    ending.register(pidfd, select.POLLIN)
    ending.poll(FAREWELL_S * 1000)
    kill_descendants()
    shutil.rmtree(folder, ignore_errors=True)
    # Wherever the loop is gone, nobody asks for the code.
    os._exit(0)


def kill_descendants() -> None:
    """Kill every process below this one, until there is none."""
    end = time.monotonic() + SWEEP_S
    while (found := descendants(os.getpid())) and time.monotonic() < end:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(root: int) -> set[int]:
    """Processes that have `root` among their ancestors."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_bytes().rsplit(b")", 1)[1].split()
                parents[int(entry.name)] = int(fields[1])
    below, more = {root}, True
    while more:
        found = {pid for pid, parent in parents.items() if parent in below} - below
        below |= found
        more = bool(found)
    return below - {root}


if __name__ == "__main__":
    main()
