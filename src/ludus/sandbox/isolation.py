"""What keeps programs in on this machine, found by trying.

`namespaces`: no network, no other processes, no other files; needs root, or user namespaces for everybody.
`filters`: seccomp and Landlock, which need no right at all; no second process, other processes are out of reach.

Where neither works, nothing is run: there is no level below.
"""

from __future__ import annotations

import threading
from functools import cache

from ludus.errors import ConfigError, SandboxError
from ludus.sandbox.execution import run_script
from ludus.sandbox.fork_server import SandboxForkServer
from ludus.sandbox.program import Confinement, Level, Limits
from ludus.sandbox.pump import Pump

_LOCK = threading.Lock()


def find_isolation() -> Level:
    """The best level that works here; tried once for each process. Raises ConfigError if none does."""
    with _LOCK:
        return _find()


@cache
def _find() -> Level:
    refusals: list[str] = []
    levels: tuple[Level, ...] = ("namespaces", "filters")
    for level in levels:
        problem = try_level(level)
        if not problem:
            return level
        refusals.append(f"{level}: {problem}")
    raise ConfigError(
        f"this machine has nothing that keeps a program in ({'; '.join(refusals)}); "
        "allow user namespaces (sysctl user.max_user_namespaces), or use a kernel with Landlock (6.2 or later)"
    )


def try_level(level: Level) -> str:
    """Why a level does not work here; empty if it does."""
    fork_server, pump = SandboxForkServer(), Pump()
    try:
        confinement = Confinement(fork_server=fork_server, level=level, limits=Limits())
        ran = run_script(confinement, pump, "print(6 * 7)", "")
    except SandboxError as error:
        return str(error)
    finally:
        pump.close()
        fork_server.close()
    return "" if ran.ended.is_clean and ran.stdout == "42\n" else f"a program {ran.ended}"
