"""A learner's state in a folder: in whole files, or in a file of each trainer.

Invariant: a state is read whoever wrote it, so a run may go from one trainer to several and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from ludus.runtime import NodeFiles
from ludus.storage.run_directory import RunDirectory
from ludus.storage.tensor_shards import PARTS, load_part
from ludus.storage.tensors import save_tensors
from ludus.train.learners import FolderLearner, Learner


class StateFiles(Protocol):
    """Where a trainer finds and puts states."""

    def reading(self, name: str) -> Path:
        """A folder with a state, here."""
        ...

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A folder to write into."""
        ...


class LocalStates:
    """On the machine of the loop: folders beside the checkpoints."""

    def __init__(self, checkpoints: Path) -> None:
        self._checkpoints = checkpoints

    def reading(self, name: str) -> Path:
        """The folder itself."""
        return self._checkpoints / name

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """The folder itself."""
        yield self._checkpoints / name


class NodeStates:
    """On any machine."""

    def __init__(self, files: NodeFiles) -> None:
        self._files, self._checkpoints = files, RunDirectory(files.run).checkpoints

    def reading(self, name: str) -> Path:
        """Its copy here."""
        self._files.fetch(self._checkpoints / name)
        return self._checkpoints / name

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """What is written into it goes to the run."""
        return self._files.writing(self._checkpoints / name)


def write_state(
    learner: Learner | FolderLearner, state: Any, folder: Path, name: str, *, only_weights: bool = False
) -> None:
    """Write a state into an empty folder, or its weights alone."""
    if isinstance(learner, FolderLearner):
        learner.write_state(state, folder, name, only_weights=only_weights)
        return
    parts = learner.state_tensors(state)
    for part, tensors in parts.items():
        if only_weights and part != "weights":
            continue
        save_tensors(folder / f"{part}.safetensors", tensors, is_staged=True)


def read_state(learner: Learner | FolderLearner, folder: Path, name: str) -> Any:
    """Read a state, whoever wrote it."""
    if isinstance(learner, FolderLearner):
        return learner.read_state(folder, name)
    return learner.state_from_tensors({part: dict(load_part(folder, part)) for part in PARTS})
