"""What a program's process gives up before the program's first line: capabilities, system calls, resources.

Where there are no namespaces, Landlock says which files it may read, and the one folder where it may write.

Invariant: `check_given_up` raises if anything is still there, and then the program is not run.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket
from typing import Any

from ludus.sandbox.inside import namespaces, seccomp
from ludus.sandbox.inside import system_calls as calls

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _RULE_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
_HANDLED = {3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights on files that each version knows; later ones know those of 5."""
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_TRUNCATE_SINCE, _NETWORK_SINCE, _SCOPES_SINCE = 3, 4, 6
KEEPER, LAUNCHER = 1, 1
"""Processes of ours that the kernel counts as the program's: the second only where both are of one user namespace."""


def give_up(setup: dict[str, Any]) -> None:
    """Give up capabilities and system calls; without namespaces, files too."""
    calls.drop_capabilities()
    has_namespaces = bool(setup["has_namespaces"])
    if not has_namespaces:
        readable = [*namespaces.SYSTEM, *setup["readable"]]
        os.chdir(setup["work_dir"])
        _restrict_files(readable=readable, devices=list(namespaces.DEVICES), writable=setup["work_dir"])
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


def _restrict_files(*, readable: list[str], devices: list[str], writable: str) -> None:
    """Close all files for this process but these, for good. It must have given up new privileges.

    Raises:
        OSError: the kernel has no Landlock, or refuses.
    """
    version = calls.system_call("landlock", _CREATE, None, 0, _ASK_VERSION)
    if version < _TRUNCATE_SINCE:
        raise OSError(f"landlock: version {version} of the kernel cannot keep files from being cut; 3 is needed")
    handled = _HANDLED[min(version, 5)]
    ruleset = _create(version, handled)
    everything = handled & ~(_MAKE_CHAR | _MAKE_SOCK | _MAKE_BLOCK)
    for path in readable:
        _allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
    for path in devices:
        _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
    _allow(ruleset, writable, everything)
    calls.system_call("landlock", _RESTRICT, ruleset, 0)
    os.close(ruleset)


def _create(version: int, handled: int) -> int:
    fields = [handled]
    if version >= _NETWORK_SINCE:
        fields.append(3)  # bind and connect
    if version >= _SCOPES_SINCE:
        fields.append(3)  # abstract sockets and signals
    packed = (ctypes.c_uint64 * len(fields))(*fields)
    return calls.system_call("landlock", _CREATE, ctypes.byref(packed), ctypes.sizeof(packed), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    class Beneath(ctypes.Structure):
        _pack_ = 1
        _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]

    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    rule = Beneath(rights if os.path.isdir(path) else rights & _ON_FILES, opened)
    calls.system_call(f"landlock {path}", _ADD, ruleset, _RULE_BENEATH, ctypes.byref(rule), 0)
    os.close(opened)
