"""The child's side of a worker process: connection, signs of life, and dying with the parent."""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import logging
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ludus.errors import LudusError
from ludus.plugin_frames import in_words, short_path
from ludus.runtime.channel import Channel, Stop
from ludus.runtime.node_files import NodeFiles
from ludus.runtime.pulse import Pulse
from ludus.runtime.remote_files import RemoteFiles
from ludus.storage.read_only import work_in

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
FAREWELL_DEADLINE_S = 5.0
ANSWER_DEADLINE_S = 60.0
BEAT_S = 0.5
TALKATIVE = ("httpcore", "httpcore2", "httpx", "httpx2", "openai")
"""Libraries that would fill a worker's log with a line for every request."""


class Connected(NamedTuple):
    """What a worker works with."""

    channel: Channel[object]
    pulse: Pulse
    files: NodeFiles


Serve = Callable[[Channel[object], Pulse, NodeFiles], None]


def connect(incoming: object) -> Connected:
    """Set up a worker process from its command line. Call once, first thing in the worker's main."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket-fd", type=int, required=True)
    parser.add_argument("--pulse-fd", type=int, required=True)
    parser.add_argument("--life-fd", type=int, required=True)
    parser.add_argument("--incarnation", type=int, default=0)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--files", type=Path)
    arguments = parser.parse_args()
    pulse = Pulse(arguments.pulse_fd)
    if arguments.run is not None:
        work_in(arguments.run)
    _live_with_parent(arguments.life_fd, pulse)
    # Ctrl-C reaches the whole foreground group; only the supervisor decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for library in TALKATIVE:
        logging.getLogger(library).setLevel(logging.WARNING)
    sock = socket.socket(fileno=arguments.socket_fd)
    channel: Channel[object] = Channel(sock, incoming, incarnation=arguments.incarnation)
    remote = arguments.files is not None
    files = RemoteFiles(arguments.run, arguments.files) if remote else NodeFiles(arguments.run)
    return Connected(channel, pulse, files)


def run_worker(incoming: object, serve: Serve, broken: Callable[[str], msgspec.Struct]) -> None:
    """The main of a worker process: serve until the work or the parent ends; say why when it cannot go on."""
    channel, pulse, files = connect(incoming)
    try:
        serve(channel, pulse, files)
    except EOFError:
        log.info("the loop is gone; ending")
    except Exception as error:
        log.exception("cannot go on")
        channel.send(broken(str(error) if isinstance(error, LudusError) else f"{in_words(error)}{_log_hint()}"))
        channel.drain(FAREWELL_DEADLINE_S)
        raise SystemExit(1) from error


def _log_hint() -> str:
    """Where the traceback is to be read: what a worker logs goes to a file."""
    file = os.readlink(f"/proc/self/fd/{sys.stderr.fileno()}") if sys.platform == "linux" else ""
    return f"; the traceback is in {short_path(file)}" if os.path.isfile(file) else ""


def run_one_shot_worker(
    incoming: object,
    order: type[msgspec.Struct],
    work: Callable[[Any, Channel[object], Pulse, NodeFiles], msgspec.Struct],
    broken: Callable[[str], msgspec.Struct],
) -> None:
    """The main of a worker process that carries out one order, and answers with what `work` returns."""

    def serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
        for message, _ in channel.wait(None):
            if isinstance(message, Stop):
                return
            if isinstance(message, order):
                pulse.set_busy(True)
                channel.send(work(message, channel, pulse, files))
                channel.drain(ANSWER_DEADLINE_S)
                pulse.set_busy(False)
        channel.wait(None)

    run_worker(incoming, serve, broken)


def _live_with_parent(life_fd: int, pulse: Pulse) -> None:
    """Beat until the parent's end of the life pipe closes, however the parent ended; then end this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        closed = select.poll()
        closed.register(life_fd, select.POLLIN)
        while not closed.poll(BEAT_S * 1000):
            pulse.beat()
        os._exit(1)

    pulse.beat()

    threading.Thread(target=watch, name="life", daemon=True).start()
