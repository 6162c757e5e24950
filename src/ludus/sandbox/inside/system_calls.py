"""The Linux system calls that Python's `os` does not have. Each raises OSError when the kernel refuses."""

from __future__ import annotations

import ctypes
import os
import platform

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 1, 2, 4, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_GET_SECCOMP, PR_SET_SECCOMP = 1, 4, 21, 22
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 38, 39, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_CAPABILITY_VERSION_3 = 0x20080522
_MOUNT_SETATTR = 442
"""These newer numbers are the same on every architecture."""
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """The result of a call, or what the kernel says against it."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def system_call(what: str, number: int, *arguments: object) -> int:
    """Call the kernel by number; integers are passed as longs."""
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(_libc.syscall(ctypes.c_long(number), *passed), what)


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system."""
    words = [text.encode() for text in (source, target, kind, options)]
    checked(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def make_read_only(path: str) -> None:
    """Make a mount and all below it read-only, without devices and set-uid programs."""

    class Attributes(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]

    wanted = Attributes(_ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    size = ctypes.sizeof(wanted)
    arguments = (_AT_FDCWD, path.encode(), _AT_RECURSIVE, ctypes.byref(wanted), size)
    system_call(f"mount_setattr {path}", _MOUNT_SETATTR, *arguments)


def unmount(path: str) -> None:
    """Take a mount out of sight."""
    checked(_libc.umount2(path.encode(), MNT_DETACH), f"umount {path}")


def pivot_root(new: str, old: str) -> None:
    """Make another mount the root; the old root appears at `old`."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root: its number on {platform.machine()} is not known here")
    system_call("pivot_root", number, new.encode(), old.encode())


def prctl(option: int, *arguments: int) -> int:
    """Change or ask something about this process."""
    passed = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return checked(_libc.prctl(option, *passed), f"prctl {option}")


def set_filter(program: bytes, length: int) -> None:
    """Install a seccomp filter, for good."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    packed = Program(length, program)
    checked(_libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(packed), 0, 0), "seccomp")


def drop_capabilities() -> None:
    """Give up all capabilities, and the right to gain any by running a program."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last one, or not ours to drop; without new privileges it cannot be had either way
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    checked(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def effective_capabilities() -> int:
    """The capabilities of this process, as bits."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    checked(_libc.capget(header, sets), "capget")
    return sets[0] | sets[3] << 32 | sets[1] | sets[4] << 32
