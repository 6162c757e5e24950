"""Run a config and print, many times a second, episodes so far and the resident memory of all its processes (JSON lines)."""

import json
import os
import sys
import time
from pathlib import Path

from ludus.runtime import limit_threads

limit_threads(1, os.environ)

from ludus import SingleRun, load_config  # noqa: E402
from ludus.bench.measuring import descendants  # noqa: E402


def resident_mb(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    loop = SingleRun(load_config(Path(sys.argv[1])), Path(sys.argv[2]))
    loop.start()
    while not (status := loop.wait(0.05)).is_over:
        pids = [os.getpid(), *descendants(os.getpid())]
        total = sum(resident_mb(pid) for pid in pids)
        print(json.dumps({"episodes": status.episodes, "mb": total, "disk": loop.run.disk_bytes()}), flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
