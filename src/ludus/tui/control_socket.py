"""The socket through which a live run can be reached, `RUN/control.sock`.

A Unix socket's path has at most 107 bytes; through a descriptor of its folder a run in a longer path is reached, too.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

NAME = "control.sock"


def connect(run_dir: Path) -> socket.socket | None:
    """A connection to the process that runs this run; None when nobody answers."""
    try:
        folder = os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.settimeout(2.0)
        link.connect(f"/proc/self/fd/{folder}/{NAME}")
        link.settimeout(None)
    except OSError:
        link.close()
        return None
    finally:
        os.close(folder)
    return link
