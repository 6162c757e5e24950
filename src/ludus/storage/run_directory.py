"""The layout of a run directory, and of a run in stages, in one place.

    runs/x/  format.json  config.yaml  catalog.sqlite  lock  control.sock  metrics.jsonl  events.jsonl
             checkpoints/<update>/  episodes/*.arrow  experiences/*.arrow  policies/<name>/<version>/
             quarantine/  logs/attempt_<n>/  logs/latest -> attempt_<n>
    and, where there is something for them:
             base/ (the model of a warm start)  teacher/<name>/<version>/ (another run's policy, to become like)
             learners/<name>/ (runs of learners and best responses)  opponents.json (of such a run: whom to answer)
             tensorboard/  wandb/  wandb.json (the trackers' own files; which Weights & Biases run this is)
             earlier/<n>/ (runs that were here before one began from scratch)
             lm_config.json (of a population with language models, and of its learners: how they speak)
             plugins.json (the --plugin files of the newest start, and their hashes)
             recorded.sqlite (games that were recorded by `ludus league --play` and `ludus match --record`)
             feeds.json (the runs that it was fed by, and the numbers of their tasks here)
             refused_chunks.jsonl (what a loader refused, and why)
             releases/<policy>-<version>.json (how far the files of a version are on their way out)
             serving/<server>/ (what a vLLM server of whole models was given last)
             traces/*.frames (a few sequences of every update as its trainer saw them)
             refused/*.arrow  imports/*.arrow  inbox/*.edits  expert/{*.arrow, rows.json}  pairs/{*.arrow, rows.json}

Invariant: no other file spells these names. A directory is a run when it has both `format.json` and `config.yaml`; one
that has anything else in it is refused, never written into.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ludus.errors import CorruptRecord, StorageError
from ludus.storage.atomic import (
    directory_hashes,
    discard_tree,
    ensure_directory,
    move_to_quarantine,
    read_json,
    sweep_leftovers,
    temporary_name,
    write_json,
    write_text,
)
from ludus.storage.filesystem import REAL, FileSystem

log = logging.getLogger(__name__)

FORMAT = 1
_GET_FLAGS, _SET_FLAGS, _TOP_DIRECTORY = 0x80086601, 0x40086602, 0x00020000
_FOLDERS = ("checkpoints", "episodes", "experiences", "policies", "quarantine", "logs")
_STARTED = {"format.json", "config.yaml", "opponents.json", "lm_config.json", "voice.json"}
_EARLIER = "earlier"
_STAYS = {"lock", "control.sock", "logs", "inbox", _EARLIER}
"""What a run that begins from scratch finds: it belongs to the directory, or waits for whatever run is in it."""
_OWN_NAMES = {*_FOLDERS, *_STARTED, *_STAYS}
"""What a creation that was cut short can have left, and what a population tells a learner before it begins."""
_STAGED_NAMES = {"stages.json", "config.yaml", *_STAYS}
_STAGE_FOLDER = re.compile(r"[0-9]{1,4}_[A-Za-z0-9_-]{1,64}")


class _Below:
    """The path of a file or folder that lies in a directory."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: RunDirectory | StagedDirectory, kind: type) -> Path:
        return run.path / self._name


class RunDirectory:
    """Names every path of a run."""

    format = _Below("format.json")
    config = _Below("config.yaml")
    catalog = _Below("catalog.sqlite")
    recorded = _Below("recorded.sqlite")
    lock = _Below("lock")
    control = _Below("control.sock")
    metrics = _Below("metrics.jsonl")
    events = _Below("events.jsonl")
    checkpoints = _Below("checkpoints")
    episodes = _Below("episodes")
    experiences = _Below("experiences")
    traces = _Below("traces")
    refused = _Below("refused")
    refused_chunks = _Below("refused_chunks.jsonl")
    imports = _Below("imports")
    inbox = _Below("inbox")
    expert = _Below("expert")
    pairs = _Below("pairs")
    base = _Below("base")
    teacher = _Below("teacher")
    opponents = _Below("opponents.json")
    learners = _Below("learners")
    feeds = _Below("feeds.json")
    tensorboard = _Below("tensorboard")
    wandb = _Below("wandb")
    wandb_id = _Below("wandb.json")
    policies = _Below("policies")
    quarantine = _Below("quarantine")
    serving = _Below("serving")
    logs = _Below("logs")
    plugins = _Below("plugins.json")

    def __init__(self, path: Path, *, fs: FileSystem = REAL) -> None:
        self.path = path
        self._fs = fs

    @property
    def lm_config(self) -> Path:
        """How the language models of a population, and of its learners, speak."""
        old = self.path / "voice.json"  # as runs before 2026-11-17 call it
        return old if old.is_file() else self.path / "lm_config.json"

    def policy(self, name: str, version: int) -> Path:
        """Where one published version is."""
        return self.policies / name / f"{version:08d}"

    def is_run(self) -> bool:
        """Whether there is a run here, of whatever format."""
        return self.format.is_file() and self.config.is_file()

    def lost(self) -> list[str]:
        """Which of the files that make a directory a run are gone, though a run has been here."""
        has_begun = self.catalog.is_file() and self.checkpoints.is_dir()
        return [path.name for path in (self.format, self.config) if has_begun and not path.is_file()]

    def prepare(self) -> None:
        """Make the directory itself, so that it can be locked.

        Raises:
            StorageError: there is something else than a run here.
        """
        if not self.is_run() and not self.lost():
            _refuse_foreign(self.path, _OWN_NAMES, "a run")
        ensure_directory(self.path, fs=self._fs)

    def create(self, config_yaml: str) -> None:
        """Make a run here, or bring the run that is here up to this configuration; called under the run lock.

        A creation that was cut short is completed, and what dead processes left unfinished is removed.

        Raises:
            StorageError: there is something else here, or a newer ludus made the run.
        """
        self.prepare()
        for name in self.lost():
            log.warning("%s was gone; it is written again", self.path / name)
        if self.format.is_file() and self.is_run():
            self.open()
        elif not self.format.is_file():
            _spread_subdirectories(self.path)
            # The id tells a run from another one that is made in its place.
            note = {"format": FORMAT, "system": "ludus", "id": secrets.token_hex(8)}
            write_json(self.format, note, fs=self._fs)
        self._make_folders()
        if not self.config.is_file() or self.read_config() != config_yaml:
            write_text(self.config, config_yaml, fs=self._fs)
        sweep_leftovers(self.path, fs=self._fs)

    def remedy(self) -> str:
        """What to do about files that are gone, to be put behind an error; empty where there has been no run."""
        return (
            f"; its {' and '.join(lost)} is gone, and `ludus run` with its config writes it again"
            if (lost := self.lost())
            else ""
        )

    def read_config(self) -> str:
        """The resolved configuration, as YAML."""
        try:
            return self.config.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"{self.config} cannot be read: {error}") from error

    def identity(self) -> str:
        """What tells this run from every other, wherever it is moved; empty where an earlier version made it.

        Raises:
            CorruptRecord: `format.json` cannot be read.
        """
        note = read_json(self.format, most_bytes=65536)
        return str(note.get("id", "")) if isinstance(note, dict) else ""

    def open(self) -> None:
        """Check that this is a run that we can read, and make folders that are missing.

        Raises:
            StorageError: it is not a run, or a newer ludus made it.
        """
        if not self.is_run():
            raise StorageError(f"{self.path} is not a run directory (no format.json and config.yaml){self.remedy()}")
        note = read_json(self.format, most_bytes=65536)
        version = note.get("format") if isinstance(note, dict) else None
        if not isinstance(version, int):
            raise StorageError(f"{self.format} does not say which format the run has")
        _refuse_newer(self.path, version)
        self._make_folders()

    def new_attempt(self) -> Path:
        """Make the log folder of this start, `logs/attempt_<n>`, and point `logs/latest` at it."""
        ensure_directory(self.logs, fs=self._fs)
        numbers = (path.name.removeprefix("attempt_") for path in self.logs.glob("attempt_*"))
        attempt = self.logs / f"attempt_{max((int(n) for n in numbers if n.isdigit()), default=0) + 1}"
        ensure_directory(attempt, fs=self._fs)
        self._clear_latest()
        link = temporary_name(self.logs)
        os.symlink(attempt.name, link)
        self._fs.rename(link, self.logs / "latest")
        return attempt

    def _clear_latest(self) -> None:
        """Whoever copies a run and follows links (`cp -rL`) makes a folder of `latest`."""
        latest = self.logs / "latest"
        if latest.is_symlink() or not latest.is_dir():
            return
        hashes = directory_hashes(latest)
        if any(directory_hashes(attempt) == hashes for attempt in self.logs.glob("attempt_*")):
            discard_tree(latest, fs=self._fs)
        else:
            move_to_quarantine(latest, self.quarantine, "it is a folder where a link belongs", fs=self._fs)

    def disk_bytes(self) -> int:
        """Space that the files of the run take, while other processes may be changing them."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512
                except FileNotFoundError:
                    continue
        return total

    def _make_folders(self) -> None:
        for name in _FOLDERS:
            ensure_directory(self.path / name, fs=self._fs)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunStage:
    """A stage that has begun, and whether it is done."""

    folder: str
    is_done: bool = False


class StagedDirectory:
    """Names every path of a run in stages.

        runs/x/  stages.json  config.yaml  lock  1_sft/  2_mix/  3_grpo/

    Every stage is a run directory of its own; `stages.json` says which have begun and which of those are done, and
    `config.yaml` is the config as it was written. Invariant: a directory has stages when it has `stages.json`, and
    then it is not itself a run.
    """

    stages = _Below("stages.json")
    config = _Below("config.yaml")

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_staged(self) -> bool:
        """Whether there is a run in stages here, of whatever format."""
        return self.stages.is_file()

    def prepare(self) -> None:
        """Make the directory itself, so that it can be locked.

        Raises:
            StorageError: there is something else than a run in stages here.
        """
        if not self.is_staged():
            if RunDirectory(self.path).is_run():
                raise StorageError(f"{self.path} is a run without stages; choose another --run-dir")
            _refuse_foreign(self.path, _STAGED_NAMES, "a run in stages")
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
        _refuse_newer(self.path, note.get("format") if isinstance(note, dict) else None)
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


def find_run(path: Path) -> RunDirectory:
    """The run at a path; of a run in stages, its newest stage. Nothing needs to be there."""
    staged = StagedDirectory(path)
    return (staged.newest() if staged.is_staged() else None) or RunDirectory(path)


def move_to_earlier(path: Path, *, fs: FileSystem = REAL) -> Path | None:
    """Move the run at `path` to `earlier/<n>` below it, so that another can begin there; None when there is nothing.

    Call it under the run lock. Killed at any moment, what is left can be resumed or moved again: checkpoints go
    last but for what makes the directory a run.
    """
    last = ("checkpoints", "stages.json", "config.yaml", "format.json")
    names = {entry.name for entry in path.iterdir()} - _STAYS
    if not names:
        return None
    ensure_directory(path / _EARLIER, fs=fs)
    number = max((int(entry.name) for entry in (path / _EARLIER).iterdir() if entry.name.isdigit()), default=0) + 1
    target = path / _EARLIER / str(number)
    fs.make_directory(target)
    for name in [*sorted(names.difference(last)), *(name for name in last if name in names)]:
        fs.rename(path / name, target / name)
    for folder in (target, path / _EARLIER, path):
        fs.sync_directory(folder)
    return target


def _begun(entry: object) -> BegunStage:
    if not isinstance(entry, dict):
        raise TypeError(entry)
    folder, is_done = entry["folder"], entry["done"]
    if not isinstance(folder, str) or not isinstance(is_done, bool) or not _STAGE_FOLDER.fullmatch(folder):
        raise ValueError(entry)
    return BegunStage(folder=folder, is_done=is_done)


def _refuse_foreign(path: Path, own_names: set[str], what: str) -> None:
    """Never write into a directory that holds something else."""
    if path.exists() and not path.is_dir():
        raise StorageError(f"{path} is not a directory")
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    foreign = [name for name in names if name not in own_names and not name.startswith(".tmp-")]
    if foreign:
        raise StorageError(f"{path} is not empty and not {what} (it has {foreign[0]}); choose another --run-dir")


def _refuse_newer(path: Path, version: object) -> None:
    if isinstance(version, int) and version > FORMAT:
        raise StorageError(f"{path} has format {version}, this ludus reads up to {FORMAT}; upgrade ludus")


def _spread_subdirectories(path: Path) -> None:
    """Tell ext2-4 that what is made below `path` is unrelated (`chattr +T`); elsewhere this does nothing.

    Each log then gets a region of the disk of its own. Without it, creating a segment can cost ten times the CPU time
    where many files were deleted a moment ago, because a file system without a journal does not reuse them at once.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = bytearray(8)
            fcntl.ioctl(descriptor, _GET_FLAGS, flags)
            (present,) = struct.unpack("q", flags)
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("q", present | _TOP_DIRECTORY))
        finally:
            os.close(descriptor)
