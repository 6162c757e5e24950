"""The fork server's process: forks a launcher for each request that comes with descriptors.

The descriptors are: standard input, output and errors, the setup, the report, the life pipe, and the channels.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from ludus.sandbox.inside.launcher import launch

MOST_DESCRIPTORS = 16
FIRST_CHANNEL = 6


def main() -> int:
    """Fork launchers until the other side is gone. In a program's process this returns the program's exit code."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    # Children that nobody waits for leave nothing behind.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Process 1 of a world ignores what its processes send it, as long as there is no handler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while True:
        request, fds, _, _ = socket.recv_fds(connection, 16, MOST_DESCRIPTORS)
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
