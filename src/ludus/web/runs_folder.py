"""The folder whose runs are shown, and the ids by which they are asked for: paths relative to it.

Invariant: an id leads to a run below the folder or to nothing. No piece of it is empty, `.` or `..`, and neither the
run nor a file of it that is served as text lies elsewhere through a link.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ludus.reports.run_facts import find_runs
from ludus.storage.run_directory import RunDirectory, StagedDirectory, find_run
from ludus.web.answers import Refused

MOST_ID_CHARACTERS = 1000


class RunsFolder:
    """Every run below a folder; of a folder that is itself a run, that run alone."""

    def __init__(self, path: Path) -> None:
        path = path.resolve()
        self.only = path.name if _is_run(path) else ""
        self.path = path.parent if self.only else path

    def ids(self) -> Iterator[str]:
        """Ids of all runs, by path."""
        start = self.path / self.only if self.only else self.path
        for found in find_runs(start):
            yield found.relative_to(self.path).as_posix()

    def find(self, run: str) -> Path:
        """The directory of a run, or of a run in stages.

        Raises:
            Refused: there is no run of this id below the folder.
        """
        pieces = run.split("/")
        is_sound = len(run) <= MOST_ID_CHARACTERS and "\0" not in run and not {"", ".", ".."} & set(pieces)
        if not is_sound or (self.only and pieces[0] != self.only):
            raise Refused("there is no such run", status=404)
        path = self.path.joinpath(*pieces)
        if not self.contains(path) or not _is_run(path):
            raise Refused(f"there is no run {run[:200]!r} (any more)", status=404)
        return path

    def open(self, run: str) -> RunDirectory:
        """The run that has the files: of a run in stages the newest stage.

        Raises:
            Refused: there is none, or one of its files is a link to somewhere else.
        """
        directory = find_run(self.find(run))
        for entry in directory.path.iterdir():
            if entry.is_symlink() and not self.contains(entry):
                raise Refused(f"{run}: {entry.name} is a link out of the folder; it is not followed", status=403)
        return directory

    def contains(self, path: Path) -> bool:
        """Whether a path lies below the folder, wherever its links lead."""
        try:
            return path.resolve().is_relative_to(self.path)
        except (OSError, RuntimeError):  # a loop of links
            return False


def _is_run(path: Path) -> bool:
    return RunDirectory(path).is_run() or StagedDirectory(path).is_staged()
