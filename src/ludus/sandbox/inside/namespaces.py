"""A world of its own for one program: no network, no other processes, a root of read-only folders and one `/tmp`.

`leave` is called by the launcher, `build_root` and `become_nobody` by the keeper, which is process 1 of the new world.
Root makes the namespaces directly and then becomes a user number that nobody has; anybody else makes a user namespace
first. Nothing here runs a program.
"""

from __future__ import annotations

import os

from ludus.sandbox.inside import system_calls as calls

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
NOBODY = 65534
FIRST_FREE_USER = 1_900_000_000
FREE_USERS = 100_000_000
"""User numbers from here on belong to nobody; each sandbox takes one by its process id."""
_ROOT_OPTIONS = "size=4m,nr_inodes=4k,mode=0755"


def leave() -> int:
    """Leave all namespaces but the one of mounts; children are in the new ones. Returns the program's user number."""
    apart = calls.CLONE_NEWPID | calls.CLONE_NEWNET | calls.CLONE_NEWIPC | calls.CLONE_NEWUTS
    if os.geteuid() == 0:
        try:
            calls.unshare(apart)
        except PermissionError:
            pass  # root of a container; perhaps it may do what anybody may
        else:
            return FIRST_FREE_USER + os.getpid() % FREE_USERS
    user, group = os.geteuid(), os.getegid()
    calls.unshare(apart | calls.CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{NOBODY} {user} 1")
    _write("/proc/self/gid_map", f"{NOBODY} {group} 1")
    return NOBODY


def build_root(*, readable: list[str], disk_bytes: int, user: int) -> None:
    """Put this process into a root of its own, where nothing can be written but `/tmp`, and that is bounded."""
    calls.unshare(calls.CLONE_NEWNS)
    calls.mount("none", "/", "", calls.MS_REC | calls.MS_PRIVATE)
    calls.mount("tmpfs", "/tmp", "tmpfs", calls.MS_NOSUID | calls.MS_NODEV, _ROOT_OPTIONS)  # noqa: S108
    os.chdir("/tmp")  # noqa: S108 - a mount of our own
    os.mkdir("old")
    os.mkdir("new")
    calls.mount("new", "new", "", calls.MS_BIND)
    calls.pivot_root(".", "old")
    os.chdir("/")
    # Before the others: what is to be readable may lie below /tmp.
    os.mkdir("/new/tmp")
    options = f"size={disk_bytes},nr_inodes={max(disk_bytes >> 12, 256)},mode=0700"
    owner = "" if user == NOBODY else f",uid={user},gid={user}"
    calls.mount("tmpfs", "/new/tmp", "tmpfs", calls.MS_NOSUID | calls.MS_NODEV, options + owner)
    for path in (*SYSTEM, *readable):
        _show(path)
    for path in DEVICES:
        _show(path, is_device=True)
    calls.unmount("/old")
    os.chdir("/new")
    calls.pivot_root(".", ".")
    calls.unmount(".")
    flags = calls.MS_REMOUNT | calls.MS_BIND | calls.MS_RDONLY | calls.MS_NOSUID | calls.MS_NODEV
    calls.mount("none", "/", "", flags)
    os.chdir("/tmp")  # noqa: S108 - the one of the new root


def become_nobody(user: int) -> None:
    """Take the program's user number, where it is not this process's already."""
    if os.getuid() != user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _show(path: str, *, is_device: bool = False) -> None:
    """Make a path of the old root visible in the new one: links as links, the rest as read-only mounts."""
    source, target = "/old" + path, "/new" + path
    if not os.path.lexists(source) or os.path.lexists(target):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    calls.mount(source, target, "", calls.MS_BIND | calls.MS_REC)
    if not is_device:
        calls.make_read_only(target)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
