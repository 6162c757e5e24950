"""Which plugins a run was started with, for people: paths and hashes in `plugins.json`.

Invariant: what is recorded is never loaded. A run directory may come from anywhere, and code runs only where somebody
gives it with `--plugin`; a command that lacks a plugin says which to give.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from ludus.errors import StorageError
from ludus.plugins import expect_plugins
from ludus.storage.atomic import read_json, write_json
from ludus.storage.run_directory import RunDirectory

log = logging.getLogger(__name__)


def record_plugins(run: RunDirectory, files: Sequence[str]) -> None:
    """Write down the plugins of this start; warn of those whose content is not what it was at the last."""
    before = _recorded(run)
    now = {str(path): _hash(path) for path in (Path(file).resolve() for file in files)}
    for path, sha256 in now.items():
        if before.get(path, sha256) != sha256:
            log.warning("%s has changed since the run's last start", path)
    if now or before:
        write_json(run.plugins, {"plugins": [{"path": path, "sha256": sha256} for path, sha256 in now.items()]})


def recall_plugins(run: RunDirectory) -> None:
    """Let errors name the plugins that the run was started with."""
    expect_plugins({path: _note(Path(path), sha256) for path, sha256 in _recorded(run).items()})


def _note(path: Path, sha256: str) -> str:
    if not path.is_file():
        return "is gone"
    return "" if _hash(path) == sha256 else "has changed since"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _recorded(run: RunDirectory) -> dict[str, str]:
    """Path and hash of each; nothing where the file is not there or says nothing sound."""
    try:
        found = read_json(run.plugins) if run.plugins.is_file() else {}
    except StorageError:
        return {}
    entries = found.get("plugins", []) if isinstance(found, dict) else []
    sound = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {str(entry.get("path")): str(entry.get("sha256")) for entry in sound}
