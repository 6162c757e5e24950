"""The files of a run as a worker finds them on the machine that it runs on.

Messages name files of the run by where they lie below the run directory, never by a path: a worker on another machine
has a directory of its own in which they appear. Such a worker asks for a folder before it reads it, and hands over what
it has written; on the loop's machine both cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ludus.errors import WorkerError


class NodeFiles:
    """On the machine of the loop: the run directory itself."""

    is_remote = False
    """Whether what the run has is here only once it was fetched."""

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

    def model(self, path: str) -> str:
        """What to load a model by that the config names: its folder here, or the id of a hub as it is."""
        return path

    def has_folder(self, path: Path) -> bool:
        """Whether the run has a folder, which is named by where it would be here."""
        return path.is_dir()

    def folders(self, path: Path) -> list[str]:
        """The names of the folders in a folder of the run; none where the run does not have it."""
        return sorted(below.name for below in path.iterdir() if below.is_dir()) if path.is_dir() else []

    def fetch(self, folder: Path) -> None:
        """Have the files of a folder here before they are read. A folder that the run does not have is not made."""

    @contextmanager
    def writing(self, folder: Path) -> Iterator[Path]:
        """An empty folder of the run to write files into; they are in the run directory when the block has ended."""
        yield folder
