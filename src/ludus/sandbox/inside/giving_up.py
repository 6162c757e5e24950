"""What a program's process gives up before the program's first line: capabilities, system calls, resources.

Invariant: `check_given_up` raises if anything is still there, and then the program is not run.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
from typing import Any

from ludus.sandbox.inside import landlock, namespaces, seccomp
from ludus.sandbox.inside import system_calls as calls

KEEPER, LAUNCHER = 1, 1
"""Processes of ours that the kernel counts as the program's: the second only where both are of one user namespace."""


def give_up(setup: dict[str, Any]) -> None:
    """Give up capabilities and system calls; without namespaces, files too."""
    calls.drop_capabilities()
    has_namespaces = bool(setup["has_namespaces"])
    if not has_namespaces:
        readable = [*namespaces.SYSTEM, *setup["readable"]]
        os.chdir(setup["work_dir"])
        landlock.restrict(readable=readable, devices=list(namespaces.DEVICES), writable=setup["work_dir"])
        calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    seccomp.install(has_namespaces=has_namespaces)


def set_limits(setup: dict[str, Any]) -> None:
    """Bound what the process can use. Of processes, the whole world is counted, where there is one."""
    cpu_s = setup["cpu_s"]
    limits = {
        resource.RLIMIT_CPU: (cpu_s, cpu_s + 1),
        resource.RLIMIT_AS: (setup["memory_bytes"],) * 2,
        resource.RLIMIT_FSIZE: (setup["disk_bytes"],) * 2,
        resource.RLIMIT_NOFILE: (setup["open_files"],) * 2,
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_MEMLOCK: (0, 0),
    }
    if setup["has_namespaces"]:
        ours = KEEPER + LAUNCHER if os.getuid() == namespaces.NOBODY else KEEPER
        limits[resource.RLIMIT_NPROC] = (setup["processes"] + ours,) * 2
    for kind, bounds in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = [bound if hard == resource.RLIM_INFINITY else min(bound, hard) for bound in bounds]
        resource.setrlimit(kind, (most[0], most[1]))


def check_given_up() -> None:
    """Raise OSError unless this process is what it must be."""
    if calls.effective_capabilities():
        raise OSError("the program would have had capabilities")
    if calls.prctl(calls.PR_GET_NO_NEW_PRIVS) != 1 or calls.prctl(calls.PR_GET_SECCOMP) != 2:
        raise OSError("the program would have had system calls that it must not have")
    try:
        socket.socket().close()
    except OSError as error:
        if error.errno == errno.EPERM:
            return
    raise OSError("the program would have had sockets")
