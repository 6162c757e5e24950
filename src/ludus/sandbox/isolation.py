"""What keeps programs in on this machine, found by trying.

`namespaces`: no network, no other processes, no other files; needs root, or user namespaces for everybody.
`filters`: seccomp and Landlock, which need no right at all; no second process, other processes are out of reach.

Where neither works, nothing is run: there is no level below.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import cache

from ludus.errors import ConfigError, SandboxError
from ludus.sandbox.fork_server import SandboxForkServer
from ludus.sandbox.limits import Limits
from ludus.sandbox.program import GRACE_S, Level, Program
from ludus.sandbox.pump import Pump

_PROBE = {"mode": "script", "source": "print(6 * 7)", "seed": 0}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What works here."""

    level: Level
    refusals: tuple[str, ...]
    """Why no better level does."""


def find_isolation() -> Isolation:
    """The best level that works here; tried once for each process.

    Raises:
        ConfigError: none does.
    """
    with _LOCK:
        return _find()


@cache
def _find() -> Isolation:
    refusals: list[str] = []
    levels: tuple[Level, ...] = ("namespaces", "filters")
    for level in levels:
        problem = try_level(level)
        if not problem:
            return Isolation(level=level, refusals=tuple(refusals))
        refusals.append(f"{level}: {problem}")
    raise ConfigError(
        f"this machine has nothing that keeps a program in ({'; '.join(refusals)}); "
        "allow user namespaces (sysctl user.max_user_namespaces), or use a kernel with Landlock (6.2 or later)"
    )


def try_level(level: Level) -> str:
    """Why a level does not work here; empty if it does."""
    fork_server, pump = SandboxForkServer(), Pump()
    try:
        program = Program(fork_server, pump, _PROBE, level=level, limits=Limits())
        try:
            pump.run(lambda: program.has_ended, time.monotonic() + program.limits.wall_s + GRACE_S)
            ended = program.ended()
        finally:
            program.close()
    except SandboxError as error:
        return str(error)
    finally:
        pump.close()
        fork_server.close()
    return "" if ended.is_clean and program.stdout.content == b"42\n" else f"a program {ended}"
