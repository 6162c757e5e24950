"""Writing a model's folder so that it is there whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ludus.errors import ConfigError
from ludus.storage.atomic import directory_hashes, ensure_directory, publish_directory, temporary_name
from ludus.storage.filesystem import REAL


def check_free(final: Path) -> None:
    """Refuse a name that belongs to something other than a model, before any work is done for it."""
    if final.exists() and not (final / "config.json").is_file():
        raise ConfigError(f"{final} exists and is not a model; choose another folder")


@contextlib.contextmanager
def writing_model(final: Path) -> Iterator[Path]:
    """A folder to write a model into, which becomes `final` in one step when all went well.

    Writing the same model again is a no-op.

    Raises:
        ConfigError: `final` holds something else; it is left alone.
    """
    check_free(final)
    ensure_directory(final.parent)
    staging = temporary_name(final.parent)
    staging.mkdir()
    try:
        yield staging
        _publish(staging, final)
    finally:
        if staging.exists():
            REAL.remove_tree(staging)


def _publish(staging: Path, final: Path) -> None:
    for file in staging.iterdir():
        file.chmod(0o644)  # some libraries write weights for the owner's eyes only
    try:
        if not final.exists():
            publish_directory(staging, final)
    except OSError:
        if not final.exists():
            raise
    if staging.exists() and directory_hashes(final) != directory_hashes(staging):
        raise ConfigError(f"{final} holds another model already; choose another folder, or remove it first")
