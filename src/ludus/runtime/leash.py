"""Runs a program that must not outlive whoever asked for it: `python leash.py PARENT PROGRAM ARGUMENT...`.

Executed by its path and alone, so it imports nothing of ours. The kernel kills the program when the thread that started
it has ended, however that came about. Not covered: what the program itself has started.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
NOT_FOUND = 127

if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell, and the config's own program
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(NOT_FOUND)
