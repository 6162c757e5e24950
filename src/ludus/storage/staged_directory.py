"""The layout of a run in stages, in one place.

    runs/x/  stages.json  config.yaml  lock  1_sft/  2_mix/  3_grpo/

Every stage is a run directory of its own; `stages.json` says which have begun and which of those are done, and
`config.yaml` is the config as it was written. Invariant: a directory has stages when it has `stages.json`, and then it
is not itself a run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ludus.errors import CorruptRecord, StorageError
from ludus.storage.atomic import ensure_directory, read_json, write_json
from ludus.storage.run_directory import RunDirectory

FORMAT = 1
_FOLDER = re.compile(r"[0-9]{1,4}_[A-Za-z0-9_-]{1,64}")
_OWN_NAMES = {"stages.json", "config.yaml", "lock", "control.sock"}
"""What a creation that was cut short can have left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunStage:
    """A stage that has begun, and whether it is done."""

    folder: str
    is_done: bool = False


class StagedDirectory:
    """Names every path of a run in stages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stages = path / "stages.json"
        self.config = path / "config.yaml"

    def is_staged(self) -> bool:
        """Whether there is a run in stages here, of whatever format."""
        return self.stages.is_file()

    def prepare(self) -> None:
        """Make the directory itself, so that it can be locked.

        Raises:
            StorageError: there is something else than a run in stages here.
        """
        if not self.is_staged() and self.path.exists():
            self._refuse_foreign()
        ensure_directory(self.path)

    def read(self) -> tuple[BegunStage, ...]:
        """The stages that have begun, in order.

        Raises:
            StorageError: a newer ludus made the run.
            CorruptRecord: the file does not say what it should.
        """
        if not self.is_staged():
            return ()
        note = read_json(self.stages, most_bytes=1_000_000)
        version = note.get("format") if isinstance(note, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise StorageError(f"{self.path} has format {version}, this ludus reads up to {FORMAT}; upgrade ludus")
        try:
            return tuple(_begun(entry) for entry in note["stages"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecord(f"{self.stages} does not say which stages have begun: {error!r}") from error

    def write(self, begun: Sequence[BegunStage]) -> None:
        """Say which stages have begun, durably."""
        entries = [{"folder": stage.folder, "done": stage.is_done} for stage in begun]
        write_json(self.stages, {"format": FORMAT, "system": "ludus", "stages": entries})

    def stage(self, folder: str) -> RunDirectory:
        """The run directory of a stage."""
        return RunDirectory(self.path / folder)

    def newest(self) -> RunDirectory | None:
        """The run of the newest stage that has one."""
        runs = [self.stage(begun.folder) for begun in self.read()]
        return next((run for run in reversed(runs) if run.is_run()), None)

    def _refuse_foreign(self) -> None:
        if not self.path.is_dir():
            raise StorageError(f"{self.path} is not a directory")
        if RunDirectory(self.path).is_run():
            raise StorageError(f"{self.path} is a run without stages; choose another --run-dir")
        names = sorted(path.name for path in self.path.iterdir())
        foreign = [name for name in names if name not in _OWN_NAMES and not name.startswith(".tmp-")]
        if foreign:
            raise StorageError(
                f"{self.path} is not empty and not a run in stages (it has {foreign[0]}); choose another --run-dir"
            )


def find_run(path: Path) -> RunDirectory:
    """The run at a path; of a run in stages, its newest stage. Nothing needs to be there."""
    staged = StagedDirectory(path)
    return (staged.newest() if staged.is_staged() else None) or RunDirectory(path)


def _begun(entry: object) -> BegunStage:
    if not isinstance(entry, dict):
        raise TypeError(entry)
    folder, is_done = entry["folder"], entry["done"]
    if not isinstance(folder, str) or not isinstance(is_done, bool) or not _FOLDER.fullmatch(folder):
        raise ValueError(entry)
    return BegunStage(folder=folder, is_done=is_done)
