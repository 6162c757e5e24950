"""The child's side of a worker process: connection, signs of life, and dying with the parent."""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading

from ludus.runtime.channel import Channel
from ludus.runtime.pulse import Pulse

PR_SET_PDEATHSIG = 1


def connect(incoming: object) -> tuple[Channel[object], Pulse]:
    """Set up a worker process from its command line. Call once, first thing in the worker's main."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket-fd", type=int, required=True)
    parser.add_argument("--pulse-fd", type=int, required=True)
    parser.add_argument("--life-fd", type=int, required=True)
    arguments = parser.parse_args()
    _die_with_parent(arguments.life_fd)
    # Ctrl-C reaches the whole foreground group; only the supervisor decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    sock = socket.socket(fileno=arguments.socket_fd)
    return Channel(sock, incoming), Pulse(arguments.pulse_fd)


def _die_with_parent(life_fd: int) -> None:
    """End this process when the parent's end of the life pipe closes, however the parent ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        os.read(life_fd, 1)
        os._exit(1)

    threading.Thread(target=watch, name="life", daemon=True).start()
