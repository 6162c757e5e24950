"""The folders that a trainer writes its state into, one for each update, until a checkpoint takes the files.

Invariant: there is always a whole state to start a replacement from: that of the newest answered update, or of the
newest checkpoint. A file is moved, never written twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.storage.atomic import temporary_name
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.tensors import load_tensors
from ludus.train.messages import LOADER

FILES = ("weights.safetensors", "optimizer.safetensors")


class TrainerStates:
    """Keeps folders beside the checkpoints, so that their files can be moved there."""

    def __init__(self, checkpoints: CheckpointStore) -> None:
        self._checkpoints = checkpoints
        self._answered: list[Path] = []
        self._base: Path | None = None
        self.written: Path | None = None
        """The state after the update that was concluded last, if no checkpoint has it."""
        self.is_wanted = False
        """Whether the trainer was asked for its very first state and has not written it yet."""
        self.weights: dict[str, NDArray[Any]] = {}
        """As of the last checkpoint."""

    @property
    def is_there(self) -> bool:
        """Whether there is a state to save; the trainer must be asked for the very first."""
        return self.written is not None or bool(self._checkpoints.list())

    def scratch(self, *, instead_of: Path | None = None) -> Path:
        """A folder for the trainer to write into."""
        _discard(instead_of)
        folder = temporary_name(self._checkpoints.directory)
        folder.mkdir()
        return folder

    def answer(self, folder: Path) -> None:
        """The trainer has written the state after an update."""
        self._answered.append(folder)
        _discard(self._base)
        self._base = None

    def conclude(self, folder: Path) -> None:
        """The loop takes that update as done."""
        self._answered.remove(folder)
        _discard(self.written)
        self.written = folder

    def move_into(self, staging: Path) -> None:
        """Put the state after the last concluded update into a checkpoint's folder."""
        if self.written is None:
            _copy(self._checkpoints.directory / f"{self._checkpoints.list()[-1]:08d}", staging)
        else:
            for path in _files(self.written):
                path.rename(staging / path.name)
            _discard(self.written)
            self.written = None
        self.weights = load_tensors(staging / FILES[0])

    def newest(self) -> Path | None:
        """A folder with the newest state, for a new process; None to begin with fresh weights."""
        newest = self._answered[-1] if self._answered else self.written
        if newest is None:
            saved = self._checkpoints.latest()
            return None if saved is None else saved.path
        # The loop will move these files into a checkpoint, perhaps before the new process has read them.
        self._base = self.scratch(instead_of=self._base)
        _copy(newest, self._base)
        return self._base


def _files(folder: Path) -> list[Path]:
    loader = folder / LOADER
    return [*(folder / name for name in FILES), *([loader] if loader.is_file() else [])]


def _copy(source: Path, target: Path) -> None:
    for path in _files(source):
        shutil.copy2(path, target / path.name)


def _discard(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
