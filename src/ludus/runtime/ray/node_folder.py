"""A host's folder on its node: the worker's log, its part of the run directory, and the socket for files.

Invariant: the folder goes with its host. What a killed host left is removed by the next one that starts there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ludus.storage.atomic import is_alive

_PREFIX = "ludus-node-"


class NodeFolder:
    """Made with its owner alone allowed in."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.log = self.path / "worker.log"
        self.run = self.path / "run"
        self.run.mkdir()
        self.socket = self.path / "files.sock"

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not is_alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
