"""A worker process that runs a program of the user's which writes data for the run's loader, and watches over it.

The program dies with the worker, and the worker with the run. What it says is in the worker's log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from ludus.errors import TrainError
from ludus.runtime import Channel, NodeFiles, Pulse, Stop, run_worker
from ludus.runtime import leash as leash_module

LOOK_S = 0.2
END_S = 5.0
"""Between asking a program to end and killing it."""
OURSELVES = (sys.executable, "-P", "-c", "from ludus.cli import main; main()")


class Produce(msgspec.Struct, tag="produce", kw_only=True):
    """Run this program."""

    command: list[str]


class Produced(msgspec.Struct, tag="produced", kw_only=True):
    """The program has ended well: there will be no more data of it."""


class ProducerBroken(msgspec.Struct, tag="producer_broken", kw_only=True):
    """The program failed."""

    reason: str


ToProducer = Produce | Stop
FromProducer = Produced | ProducerBroken


class Program:
    """A child process on a leash."""

    def __init__(self, command: list[str]) -> None:
        words = [*OURSELVES, *command[1:]] if command[0] == "ludus" else command
        leash = [sys.executable, "-I", "-S", str(Path(leash_module.__file__)), str(os.getpid())]
        self._name = command[0]
        self._process = subprocess.Popen([*leash, *words], stdin=subprocess.DEVNULL)

    def has_ended(self) -> bool:
        """Whether it has ended well; raises TrainError when it failed."""
        code = self._process.poll()
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise TrainError(f"the program of buffer.loader.command {how}: {self._name}")
        return code == 0

    def end(self) -> None:
        """Ask it to end; make sure of it."""
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(channel: Channel[object], pulse: Pulse, _: NodeFiles) -> None:
    """Run the program until it ends, or until told to stop."""
    program: Program | None = None
    while True:
        for message, _blob in channel.wait(None if program is None else LOOK_S):
            pulse.tick()
            if isinstance(message, Stop):
                if program is not None:
                    program.end()
                return
            if isinstance(message, Produce):
                program = Program(message.command)
        if program is not None and program.has_ended():
            program = None
            channel.send(Produced())


def main() -> None:
    """Entry point of the process."""
    run_worker(ToProducer, serve, lambda reason: ProducerBroken(reason=reason))
