"""Decisions that people made about rows, on their way into a run: files in `inbox/`, taken by whoever owns the run.

Invariant: a file is there whole or not at all, and it is removed only after its rows are in the log `imports`, which
drops what it has already; so every decision arrives exactly once, whether the run is alive or not. Its name is made
from its contents: writing the same decisions again changes nothing.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from ludus.errors import CorruptRecord
from ludus.records import REQUIRED_STEP_COLUMNS, SEQUENCE_COLUMNS, Experiences
from ludus.storage.arrow import experiences_from_bytes, experiences_to_bytes
from ludus.storage.atomic import ensure_directory, move_to_quarantine, write_bytes

SUFFIX = ".edits"
DECISIONS = ("on_policy", "expert", "rejected")
"""What the column `source` of such a row says: train on it, imitate it, or do not use it any more."""


def put_into_inbox(inbox: Path, rows: Experiences) -> Path:
    """Leave decided rows for the run to take."""
    payload = experiences_to_bytes(rows)
    ensure_directory(inbox)
    path = inbox / f"{blake2b(payload, digest_size=16).hexdigest()}{SUFFIX}"
    write_bytes(path, payload)
    return path


def waiting_in_inbox(inbox: Path) -> list[Path]:
    """What has not been taken yet."""
    return sorted(inbox.glob(f"*{SUFFIX}")) if inbox.is_dir() else []


def read_from_inbox(path: Path, quarantine: Path) -> Experiences:
    """The rows of one file; none, if it is damaged: then it is moved away."""
    try:
        rows = experiences_from_bytes(path.read_bytes())
        _check(rows)
    except CorruptRecord as error:
        move_to_quarantine(path, quarantine, str(error))
        return Experiences.empty()
    return rows


def _check(rows: Experiences) -> None:
    missing = [name for name in (*SEQUENCE_COLUMNS, "source") if name not in rows.sequences]
    missing += [name for name in REQUIRED_STEP_COLUMNS if name not in rows.steps]
    if missing:
        raise CorruptRecord(f"no column {missing[0]}")
    unknown = set(rows.sequences["source"].tolist()) - set(DECISIONS)
    if unknown:
        raise CorruptRecord(f"unknown source {sorted(unknown)[0]!r}")
