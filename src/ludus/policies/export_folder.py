"""A folder that gets a copy of every version that a cycle makes, `<policy>-<version>/`, and keeps the newest.

Invariant: a version that can be seen there is whole; one that is there already is never changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from ludus.errors import ConfigError
from ludus.policies.export import export_policy
from ludus.policies.store import CARD, PolicyStore
from ludus.records import PolicyRef
from ludus.storage.atomic import directory_hashes, discard_tree


class ExportFolder:
    """Where exports go, and how many stay."""

    def __init__(self, path: Path, keep: int) -> None:
        self.path = path
        self._keep = keep

    def target(self, ref: PolicyRef) -> Path:
        """Where a version goes."""
        return self.path / f"{ref.name}-{ref.version:08d}"

    def add(self, store: PolicyStore, ref: PolicyRef) -> bool:
        """See to it that a version is there; returns whether it was not.

        Raises:
            ConfigError: something else is there under its name.
        """
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
