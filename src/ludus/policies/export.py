"""Copies of a published version outside of its run: the same files, whole and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ludus.errors import ConfigError
from ludus.policies.store import CARD, Policy, PolicyStore
from ludus.records import PolicyRef
from ludus.storage.atomic import discard_tree, ensure_directory, publish_directory, temporary_name, write_bytes


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
