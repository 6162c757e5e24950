"""The launcher's watch over a running program: its time, and the memory and disk that no limit of the kernel sums."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any, NoReturn

WATCH_S = 0.05


class Watch:
    """Waits for a child, or ends it."""

    def __init__(self, child: int, life_fd: int, setup: dict[str, Any]) -> None:
        self._child = child
        self._life_fd = life_fd
        self._memory_bytes = int(setup["memory_bytes"])
        self._disk_bytes = int(setup["disk_bytes"])
        self._work_dir = str(setup["work_dir"])
        self._ends = time.monotonic() + float(setup["wall_s"])
        self._page = os.sysconf("SC_PAGE_SIZE")

    def wait(self) -> dict[str, Any]:
        """Wait until the child has ended or was ended; says why, or how."""
        ended = os.pidfd_open(self._child)
        reason = ""
        while not reason and not select.select([ended, self._life_fd], [], [], WATCH_S)[0]:
            reason = self._reason()
        is_unwanted = bool(select.select([self._life_fd], [], [], 0)[0])
        if reason or is_unwanted:
            os.kill(self._child, signal.SIGKILL)
        _, status, used = os.wait4(self._child, 0)
        if is_unwanted:
            self._leave()
        if reason:
            return {"ended": reason}
        return {"status": status, "cpu_s": used.ru_utime + used.ru_stime}

    def _leave(self) -> NoReturn:
        """The parent is gone, or needs no report: leave nothing behind."""
        if self._work_dir:
            import shutil

            shutil.rmtree(self._work_dir, ignore_errors=True)
        os._exit(0)

    def _reason(self) -> str:
        """Why the child must end now; empty if it need not."""
        if time.monotonic() >= self._ends:
            return "wall"
        if self._memory([self._child]) > self._memory_bytes:
            return "memory"
        if self._work_dir and _disk(self._work_dir) > self._disk_bytes:
            return "disk"
        return ""

    def _memory(self, family: list[int]) -> int:
        """Resident bytes of processes and all their descendants."""
        total = 0
        while family:
            pid = family.pop()
            try:
                with open(f"/proc/{pid}/statm") as file:
                    total += int(file.read().split()[1]) * self._page
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        family += map(int, file.read().split())
            except (OSError, IndexError, ValueError):
                continue  # it has ended meanwhile, or the kernel keeps no such list
        return total


def _disk(folder: str) -> int:
    """Bytes in a folder and all below it; each entry counts a block."""
    total, folders = 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    total += 4096 + entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue
    return total
