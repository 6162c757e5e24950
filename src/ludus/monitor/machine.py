"""What a run takes of its machine: CPU, memory and disk, from /proc. Zero is a measure; None is not known.

Not covered: workers on other machines.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReading:
    """One look."""

    cores: int
    load: float | None
    """Processes that run or wait to, mean over a minute."""
    memory_bytes: int | None
    memory_free_bytes: int | None
    disk_bytes: int
    disk_free_bytes: int
    run_processes: int = 0
    run_cpu_s: float | None = None
    """CPU seconds that the run's processes have used so far; None where nobody runs it."""
    run_memory_bytes: int | None = None
    """What they have in memory; pages that several share count for each."""


def read_machine(run: Path, pid: int | None) -> MachineReading:
    """The machine as it is now, and the run's processes, of which `pid` is the first."""
    disk, memory = shutil.disk_usage(run), _memory()
    family = [] if pid is None else _family(pid)
    usage = [found for each in family if (found := _usage(each)) is not None]
    return MachineReading(
        cores=os.cpu_count() or 1,
        load=_load(),
        memory_bytes=memory.get("MemTotal"),
        memory_free_bytes=memory.get("MemAvailable"),
        disk_bytes=disk.total,
        disk_free_bytes=disk.free,
        run_processes=len(usage),
        run_cpu_s=sum(cpu_s for cpu_s, _ in usage) if usage else None,
        run_memory_bytes=sum(size for _, size in usage) if usage else None,
    )


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _memory() -> dict[str, int]:
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines)
    return {name.rstrip(":"): int(size) * 1024 for name, size, *_ in fields if size.isdigit()}


def _family(pid: int) -> list[int]:
    """A process and all that it started."""
    children = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            children[int(fields[1])].append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += children.get(each, [])
    return found


def _usage(pid: int) -> tuple[float, int] | None:
    """CPU seconds, with those of children that have ended, and bytes in memory."""
    fields = _stat(pid)
    return None if fields is None else (sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name."""
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
