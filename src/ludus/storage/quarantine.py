"""What cannot be trusted is moved aside, never deleted and never used.

Invariant: beside every thing in `quarantine/` lies `<name>.reason.json`, which says where it came from and why.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from pathlib import Path

from ludus.errors import DiskFull
from ludus.storage.atomic import ensure_directory, write_json
from ludus.storage.filesystem import REAL, FileSystem

log = logging.getLogger(__name__)


def move_to_quarantine(path: Path, folder: Path, reason: str, *, fs: FileSystem = REAL) -> Path:
    """Move a file or directory into `folder` under a free name; return where it is now."""
    ensure_directory(folder, fs=fs)
    target = _free_name(folder, f"{path.parent.name}-{path.name}")
    fs.rename(path, target)
    fs.sync_directory(folder)
    fs.sync_directory(path.parent)
    with contextlib.suppress(DiskFull):  # the reason is also in the log line below
        note = {"source": str(path), "reason": reason, "moved": time.time()}
        write_json(target.with_name(target.name + ".reason.json"), note, fs=fs)
    log.warning("%s is not usable (%s); moved to %s", path, reason, target)
    return target


def _free_name(folder: Path, name: str) -> Path:
    candidates = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(1)))
    return next(folder / candidate for candidate in candidates if not (folder / candidate).exists())
