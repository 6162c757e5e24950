"""Files and directories that are there whole or not at all.

Invariant: a reader that opens a final name sees either what was there before or the complete new contents, whatever
process dies or power fails in between; a write that fails leaves nothing behind. New contents are made under a
temporary name in the same directory, synced, renamed, and the directory is synced.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludus.errors import CorruptRecord, DiskFull, StorageError
from ludus.storage.filesystem import REAL, FileSystem, Piece

log = logging.getLogger(__name__)

_MEGABYTE = 1_000_000
_MOST_JSON_BYTES = 256 * _MEGABYTE
_PROCESS_TOKEN = secrets.token_hex(4)
"""Tells our temporaries from those of an earlier process that had our pid (in a container: often)."""
_counter = itertools.count()
_TEMPORARY = re.compile(r"\.(?:tmp|stage-\d+)-(?P<pid>\d+)-(?P<token>[0-9a-f]{8})[0-9a-f]+")


def temporary_name(directory: Path, kind: str = "tmp") -> Path:
    """A name in `directory` that nobody else uses and that `sweep_leftovers` recognises."""
    return directory / f".{kind}-{os.getpid()}-{_PROCESS_TOKEN}{next(_counter):04x}"


def write_pieces(path: Path, pieces: Sequence[Piece], *, fs: FileSystem = REAL) -> None:
    """Replace `path` by the concatenation of `pieces`, durably.

    Raises:
        DiskFull: there is no space; `path` is as it was.
    """
    temporary = temporary_name(path.parent)
    try:
        with disk_errors(path.parent, sum(len(piece) for piece in pieces), fs):
            fs.write_file(temporary, pieces)
            fs.rename(temporary, path)
            fs.sync_directory(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            fs.unlink(temporary)
        raise


def stage_pieces(path: Path, pieces: Sequence[Piece], *, fs: FileSystem = REAL) -> None:
    """Write a new file into a staging directory and sync it; its name lasts from `publish_directory` on.

    Raises:
        DiskFull: there is no space.
    """
    with disk_errors(path.parent, sum(len(piece) for piece in pieces), fs):
        fs.write_file(path, pieces)


def write_bytes(path: Path, data: Piece, *, fs: FileSystem = REAL) -> None:
    """Replace `path` by `data`, durably."""
    write_pieces(path, [data], fs=fs)


def write_text(path: Path, text: str, *, fs: FileSystem = REAL) -> None:
    """Replace `path` by `text` in UTF-8, durably."""
    write_pieces(path, [text.encode()], fs=fs)


def write_json(path: Path, obj: Any, *, fs: FileSystem = REAL) -> None:
    """Replace `path` by `obj` as indented JSON, durably. NaN and infinities are refused: they are not JSON."""
    write_bytes(path, json_bytes(path, obj), fs=fs)


def json_bytes(path: Path, obj: Any) -> bytes:
    """What `write_json` writes."""
    try:
        # Indenting text in C, a tenth of what json takes for it with `indent`; the same bytes.
        return (msgspec.json.format(json.dumps(obj, allow_nan=False), indent=1) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"{path}: cannot be written as JSON: {error}") from error


def read_json(path: Path, *, most_bytes: int = _MOST_JSON_BYTES) -> Any:
    """Read one JSON value.

    Raises:
        CorruptRecord: the file is not JSON, or larger than `most_bytes`.
    """
    try:
        with path.open("rb") as file:
            text = file.read(most_bytes + 1)
        if len(text) > most_bytes:
            raise CorruptRecord(f"{path}: larger than {most_bytes} bytes")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptRecord(f"{path}: not JSON: {error}") from error
    except OSError as error:
        raise CorruptRecord(f"{path}: cannot be read: {error}") from error


def ensure_directory(path: Path, *, fs: FileSystem = REAL) -> None:
    """Make `path` and what is missing above it, durably."""
    if path.is_dir():
        return
    ensure_directory(path.parent, fs=fs)
    with disk_errors(path.parent, 4096, fs), contextlib.suppress(FileExistsError):
        fs.make_directory(path)
        fs.sync_directory(path.parent)


def sync_tree(directory: Path, *, fs: FileSystem = REAL) -> None:
    """Sync every file in a flat directory, then the directory itself."""
    for path in sorted(directory.iterdir()):
        if path.is_symlink() or not path.is_file():
            raise StorageError(f"{path}: only plain files can be published")
        fs.sync_file(path)
    fs.sync_directory(directory)


def publish_directory(staging: Path, final: Path, *, is_synced: bool = False, fs: FileSystem = REAL) -> None:
    """Give a finished staging directory its final name, durably.

    Publishing the same contents again is a no-op (the staging directory is removed). `is_synced`: every file was
    written by `stage_pieces`, so only their names are synced.

    Raises:
        StorageError: `final` exists with other contents; it is left alone.
    """
    if final.exists():
        if directory_hashes(staging) != directory_hashes(final):
            raise StorageError(f"{final} exists with other contents; it is never overwritten")
        fs.sync_directory(final.parent)
        fs.remove_tree(staging)
        return
    ensure_directory(final.parent, fs=fs)
    with disk_errors(final.parent, 4096, fs):
        if is_synced:
            fs.sync_directory(staging)
        else:
            sync_tree(staging, fs=fs)
        fs.rename(staging, final)
        fs.sync_directory(final.parent)


def directory_hashes(directory: Path) -> dict[str, str]:
    """SHA-256 by file name, over everything below `directory`."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): sha256_file(path) for path in files}


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's contents, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep_leftovers(root: Path, *, fs: FileSystem = REAL) -> list[Path]:
    """Remove the temporaries that dead processes left anywhere below `root`; return what was removed."""
    leftovers = [path for path in _temporaries(root) if _is_leftover(path.name)]
    for path in leftovers:
        with contextlib.suppress(FileNotFoundError):
            fs.remove_tree(path) if path.is_dir() and not path.is_symlink() else fs.unlink(path)
    if leftovers:
        log.info("removed %d unfinished files of earlier processes in %s", len(leftovers), root)
    return leftovers


def discard_tree(path: Path, *, fs: FileSystem = REAL) -> None:
    """Remove a directory so that its name vanishes in one step: never half of it under its own name."""
    doomed = temporary_name(path.parent)
    fs.rename(path, doomed)
    fs.remove_tree(doomed)


def move_to_quarantine(path: Path, folder: Path, reason: str, *, fs: FileSystem = REAL) -> Path:
    """Move what cannot be trusted into `folder` under a free name; return where it is now.

    It is never deleted and never used. `<name>.reason.json` beside it says where it came from and why.
    """
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


@contextlib.contextmanager
def disk_errors(directory: Path, need_bytes: int, fs: FileSystem = REAL) -> Iterator[None]:
    """Turn "no space left" and "quota exceeded" into `DiskFull` with the numbers a person needs."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(directory, need_bytes, fs) from error
        raise


def disk_full(directory: Path, need_bytes: int, fs: FileSystem = REAL) -> DiskFull:
    """The error for `need_bytes` that did not fit into `directory`."""
    while directory.name.startswith("."):  # name a place that means something to a person
        directory = directory.parent
    free = fs.free_bytes(directory) // _MEGABYTE
    need = -(-need_bytes // _MEGABYTE)
    return DiskFull(f"{free} MB free in {directory}, need ~{need} MB")


def _free_name(folder: Path, name: str) -> Path:
    candidates = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(1)))
    return next(folder / candidate for candidate in candidates if not (folder / candidate).exists())


def _temporaries(root: Path) -> Iterator[Path]:
    for folder, directories, files in os.walk(root):
        found = [name for name in directories if _TEMPORARY.fullmatch(name)]
        directories[:] = [name for name in directories if name not in found]
        yield from (Path(folder, name) for name in found)
        yield from (Path(folder, name) for name in files if _TEMPORARY.fullmatch(name))


def _is_leftover(name: str) -> bool:
    match = _TEMPORARY.fullmatch(name)
    if match is None:
        return False
    pid = int(match["pid"])
    if pid == os.getpid():
        return match["token"] != _PROCESS_TOKEN
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether a process of this number exists on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
