"""Runs a program as a script: text in, text out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ludus.sandbox.fork_server import SandboxForkServer
from ludus.sandbox.limits import Limits
from ludus.sandbox.program import GRACE_S, Ended, Level, Program
from ludus.sandbox.pump import Pump


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a script."""

    stdout: str
    stderr: str
    is_cut: bool
    """Whether it printed more than was kept."""
    ended: Ended


def run_script(
    fork_server: SandboxForkServer,
    pump: Pump,
    source: str,
    stdin: str,
    *,
    level: Level,
    limits: Limits,
    seed: int = 0,
    packages: bool = False,
) -> Ran:
    """Run a script to its end.

    Raises:
        SandboxError: the sandbox failed, not the program.
    """
    setup = {"mode": "script", "source": source, "seed": seed}
    program = Program(
        fork_server, pump, setup, level=level, limits=limits, stdin=stdin.encode(errors="replace"), packages=packages
    )
    try:
        pump.run(lambda: program.has_ended, time.monotonic() + limits.wall_s + GRACE_S)
        ended = program.ended()
    finally:
        program.close()
    return Ran(
        stdout=bytes(program.stdout.content).decode(errors="replace"),
        stderr=bytes(program.stderr.content).decode(errors="replace"),
        is_cut=program.stdout.is_cut or program.stderr.is_cut,
        ended=ended,
    )
