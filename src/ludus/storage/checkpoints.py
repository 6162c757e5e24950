"""Checkpoints: one manifest over everything a run needs to go on from one point in time.

    checkpoints/00000420/weights.safetensors  optimizer.safetensors  ...  manifest.json

Invariant: a directory with a number as its name was complete when it got that name, because the manifest is written
last and the rename is the commit. The manifest holds the size and SHA-256 of every file, the JSON state (cursors,
RNG, league) and its own hash; nothing is loaded that does not match. A damaged checkpoint is replaced by the one
before it, loudly; when none is usable that is an error, never a fresh start.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord, IncompleteCheckpoint, StorageError
from ludus.storage.atomic import (
    discard_tree,
    ensure_directory,
    move_to_quarantine,
    publish_directory,
    read_json,
    sha256_file,
    temporary_name,
    write_json,
)
from ludus.storage.filesystem import REAL, FileSystem

log = logging.getLogger(__name__)

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete, verified checkpoint."""

    update: int
    path: Path
    state: dict[str, Any]
    """The JSON state as it was given to `commit`."""
    sha256: str
    """Hash of the manifest, and with it of everything in the checkpoint."""

    def tensors(self, name: str) -> Mapping[str, NDArray[Any]]:
        """Load `<name>.safetensors`; of a state in pieces, that part, of which each tensor is read when it is used."""
        from ludus.storage.tensor_shards import load_part

        return load_part(self.path, name)


class CheckpointStore:
    """The checkpoints of one run. One process commits; any process may fill the staging directory."""

    def __init__(self, directory: Path, keep: int, *, fs: FileSystem = REAL) -> None:
        if keep < 1:
            raise StorageError(f"keep at least 1 checkpoint, not {keep}")
        self.directory = directory
        self.keep = keep
        self._fs = fs
        ensure_directory(directory, fs=fs)

    def stage(self, update: int) -> Path:
        """Make an empty directory to write the files of checkpoint `update` into.

        One checkpoint is in the making at a time: what an earlier one left unfinished is removed.
        """
        for abandoned in self.directory.glob(".stage-*"):
            self._fs.remove_tree(abandoned)
        staging = temporary_name(self.directory, kind=f"stage-{update}")
        self._fs.make_directory(staging)
        return staging

    def commit(self, staging: Path, update: int, state: Mapping[str, Any]) -> Checkpoint:
        """Turn a staging directory into checkpoint `update`; when this returns, it survives a power loss.

        Committing the same files and state again is a no-op.

        Raises:
            StorageError: another checkpoint `update` exists, or `state` is not JSON.
            DiskFull: there is no space; earlier checkpoints are intact. Stage again when there is.
        """
        final = self.directory / f"{update:08d}"
        manifest = _manifest(staging, update, state)
        write_json(staging / MANIFEST, manifest, fs=self._fs)
        publish_directory(staging, final, fs=self._fs)
        self._prune()
        return Checkpoint(update=update, path=final, state=manifest["state"], sha256=manifest["sha256"])

    def list(self) -> list[int]:
        """Updates that have a checkpoint directory, oldest first. Not verified."""
        names = (path.name for path in self.directory.iterdir() if path.is_dir())
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def newest_part(self, name: str) -> Mapping[str, NDArray[Any]]:
        """Tensors of the newest checkpoint, which was committed by this process and is not verified again."""
        from ludus.storage.tensor_shards import load_part

        return load_part(self.directory / f"{self.list()[-1]:08d}", name)

    def load(self, update: int) -> Checkpoint:
        """Verify and open one checkpoint.

        Raises:
            CorruptRecord: something in it does not match its hash.
        """
        return _verify(self.directory / f"{update:08d}", update)

    def latest(self, *, strict: bool = False) -> Checkpoint | None:
        """The newest checkpoint that is whole; None only when there has never been one.

        Damaged newer ones are moved to quarantine with a warning.

        Raises:
            IncompleteCheckpoint: none is usable, or (`strict`) the newest is not.
            StorageError: it was written by a newer ludus.
        """
        damaged: dict[int, str] = {}
        for update in reversed(self.list()):
            try:
                found = self.load(update)
            except CorruptRecord as error:
                damaged[update] = str(error)
                if strict:
                    raise IncompleteCheckpoint(f"checkpoint {update} is damaged ({error}); strict resume") from error
                continue
            self._quarantine(damaged, found.update)
            return found
        if damaged:
            reasons = "\n".join(f"  checkpoint {update}: {reason}" for update, reason in damaged.items())
            raise IncompleteCheckpoint(f"no checkpoint in {self.directory} is usable; not starting over:\n{reasons}")
        return None

    def _quarantine(self, damaged: Mapping[int, str], used: int) -> None:
        for update, reason in damaged.items():
            log.warning("checkpoint %d is damaged (%s); using checkpoint %d", update, reason, used)
            quarantine = self.directory.parent / "quarantine"
            move_to_quarantine(self.directory / f"{update:08d}", quarantine, reason, fs=self._fs)

    def _prune(self) -> None:
        for update in self.list()[: -self.keep]:
            discard_tree(self.directory / f"{update:08d}", fs=self._fs)


def newest_whole(directory: Path) -> Checkpoint:
    """The newest checkpoint that is whole, for who only looks: beside a live run, and without moving anything.

    Raises:
        StorageError: there is none.
    """
    store = CheckpointStore(directory, keep=2)
    for update in reversed(store.list()):
        try:
            return store.load(update)
        except CorruptRecord:
            continue  # damaged, or removed this moment by the run that is alive
    raise StorageError(f"{directory} has no checkpoint that can be read yet")


def _manifest(staging: Path, update: int, state: Mapping[str, Any]) -> dict[str, Any]:
    files = sorted(path for path in staging.iterdir() if path.name != MANIFEST)
    listing = {path.name: {"sha256": sha256_file(path), "size": path.stat().st_size} for path in files}
    manifest: dict[str, Any] = {"format": FORMAT, "update": update, "files": listing, "state": _as_json(state, update)}
    return {**manifest, "sha256": _own_hash(manifest)}


def _as_json(state: Mapping[str, Any], update: int) -> dict[str, Any]:
    """The state as it will be read back: tuples become lists, numpy numbers plain ones."""
    try:
        text = json.dumps(dict(state), allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"the state of checkpoint {update} is not JSON: {error}") from error
    plain: dict[str, Any] = json.loads(text)
    return plain


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _own_hash(manifest: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _verify(path: Path, update: int) -> Checkpoint:
    manifest = read_json(path / MANIFEST)
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise StorageError(f"{path} has format {version}, this ludus reads up to {FORMAT}; upgrade ludus to resume")
    if version != FORMAT or _own_hash(manifest) != manifest.get("sha256"):
        raise CorruptRecord(f"{path / MANIFEST} does not match its own hash")
    if manifest["update"] != update:
        raise CorruptRecord(f"{path} holds checkpoint {manifest['update']}")
    for name, expected in manifest["files"].items():
        _verify_file(path / name, expected["size"], expected["sha256"])
    return Checkpoint(update=update, path=path, state=manifest["state"], sha256=manifest["sha256"])


def _verify_file(path: Path, size: int, sha256: str) -> None:
    if not path.is_file():
        raise CorruptRecord(f"{path} is missing")
    if path.stat().st_size != size:
        raise CorruptRecord(f"{path} has {path.stat().st_size} bytes, not {size}")
    if sha256_file(path) != sha256:
        raise CorruptRecord(f"{path} does not match its hash")
