"""Landlock: which files a process may read, and the one folder where it may write. For machines without namespaces."""

from __future__ import annotations

import ctypes
import os

from ludus.sandbox.inside.system_calls import system_call

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _RULE_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
_HANDLED = {3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights on files that each version knows; later ones know those of 5."""
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_TRUNCATE_SINCE, _NETWORK_SINCE, _SCOPES_SINCE = 3, 4, 6


def restrict(*, readable: list[str], devices: list[str], writable: str) -> None:
    """Close all files for this process but these, for good. It must have given up new privileges.

    Raises:
        OSError: the kernel has no Landlock, or refuses.
    """
    version = system_call("landlock", _CREATE, None, 0, _ASK_VERSION)
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
    system_call("landlock", _RESTRICT, ruleset, 0)
    os.close(ruleset)


def _create(version: int, handled: int) -> int:
    fields = [handled]
    if version >= _NETWORK_SINCE:
        fields.append(3)  # bind and connect
    if version >= _SCOPES_SINCE:
        fields.append(3)  # abstract sockets and signals
    packed = (ctypes.c_uint64 * len(fields))(*fields)
    return system_call("landlock", _CREATE, ctypes.byref(packed), ctypes.sizeof(packed), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    class Beneath(ctypes.Structure):
        _pack_ = 1
        _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]

    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    rule = Beneath(rights if os.path.isdir(path) else rights & _ON_FILES, opened)
    system_call(f"landlock {path}", _ADD, ruleset, _RULE_BENEATH, ctypes.byref(rule), 0)
    os.close(opened)
