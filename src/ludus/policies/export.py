"""Copies of published versions outside of their run: the same files, whole and checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ludus.errors import ConfigError, CorruptRecord
from ludus.policies.store import CARD, Policy, PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.atomic import (
    directory_hashes,
    discard_tree,
    ensure_directory,
    publish_directory,
    read_json,
    temporary_name,
    write_bytes,
)


def export_policy(store: PolicyStore, ref: PolicyRef, target: Path, *, replace: bool = False) -> Policy[Any]:
    """Write the version to `target` in one step; what is there already is replaced only if asked."""
    policy = store.load(ref)
    if target.exists():
        if not replace:
            raise ConfigError(f"{target} exists; choose another --out, or replace it with --force")
        if not (target / CARD).is_file():
            raise ConfigError(f"{target} is not an exported policy; it is not replaced")
        discard_tree(target)
    ensure_directory(target.parent)
    staging = temporary_name(target.parent)
    staging.mkdir()
    for file in sorted(store.path(ref).iterdir()):
        write_bytes(staging / file.name, file.read_bytes())
    publish_directory(staging, target)
    return policy


def load_export(folder: Path) -> Policy[Any]:
    """An exported version, whole and checked against its hash."""
    card = read_json(folder / CARD)
    try:
        ref = PolicyRef(name=PolicyName(str(card["name"])), version=PolicyVersion(int(card["version"])))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptRecord(f"{folder / CARD} does not say which version this is") from error
    return _Exported(folder).load(ref)


class _Exported(PolicyStore):
    """The store of one version, whatever its folder is called."""

    def path(self, ref: PolicyRef) -> Path:
        """The folder itself."""
        return self._directory


class ExportFolder:
    """A folder that gets a copy of every version that a cycle makes, `<policy>-<version>/`, and keeps the newest.

    Invariant: a version that can be seen there is whole; one that is there already is never changed.
    """

    def __init__(self, path: Path, keep: int) -> None:
        self.path = path
        self._keep = keep

    def target(self, ref: PolicyRef) -> Path:
        """Where a version goes."""
        return self.path / f"{ref.name}-{ref.version:08d}"

    def add(self, store: PolicyStore, ref: PolicyRef) -> bool:
        """See to it that a version is there; returns whether it was not. Raises ConfigError if its name is taken."""
        target = self.target(ref)
        is_new = not target.exists()
        if is_new:
            export_policy(store, ref, target)
        elif directory_hashes(target) != directory_hashes(store.path(ref)):
            raise ConfigError(f"cycle.export: {target} is there and is not {ref} of this run; name another folder")
        self._prune(ref)
        return is_new

    def _prune(self, newest: PolicyRef) -> None:
        pattern = re.compile(re.escape(f"{newest.name}-") + r"(\d{8,})")
        found = [(int(match[1]), path) for path in self.path.iterdir() if (match := pattern.fullmatch(path.name))]
        ours = sorted((version, path) for version, path in found if (path / CARD).is_file())
        for version, path in ours[: -self._keep]:
            if version != newest.version:
                discard_tree(path)
