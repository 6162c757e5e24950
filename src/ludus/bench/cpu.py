"""CPU time of this process and all its descendants, living or dead."""

from __future__ import annotations

import os
import resource

from ludus.telemetry.room_meters import process_cpu_s


def tree_cpu_s() -> float:
    """CPU-seconds used so far by this process, its ended children and its living descendants."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return total + sum(process_cpu_s(pid) or 0.0 for pid in descendants(os.getpid()))


def descendants(root: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat behind the name: state, parent, ...; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
