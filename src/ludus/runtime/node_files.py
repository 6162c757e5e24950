"""The files of a run as a worker finds them on the machine that it runs on.

Messages name files of the run by where they lie below the run directory, never by a path: a worker on another machine
has a directory of its own in which they appear.
"""

from __future__ import annotations

from pathlib import Path

from ludus.errors import WorkerError


class NodeFiles:
    """On the machine of the loop: the run directory itself."""

    def __init__(self, run: Path | None) -> None:
        """`run` is the run directory; None for a worker that belongs to none."""
        self._run = run

    @property
    def run(self) -> Path:
        """The run directory."""
        if self._run is None:
            raise WorkerError("this worker was started without the directory of a run")
        return self._run

    def outside(self, path: str) -> Path:
        """A file or folder that the config names and that is not the run's own: a model, a plugin, another run."""
        return Path(path)
