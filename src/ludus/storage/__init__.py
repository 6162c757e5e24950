"""Every byte on disk: atomic files, manifests, Arrow segments, the catalog, the run lock, safe archives.

What needs pyarrow or safetensors is imported when it is first used, so that looking at a run stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.lazy import import_later
from ludus.storage.archives import Limits, Member, read_archive
from ludus.storage.atomic import (
    ensure_directory,
    publish_directory,
    read_json,
    sha256_file,
    sweep_leftovers,
    temporary_name,
    write_bytes,
    write_json,
    write_text,
)
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.filesystem import REAL, FileSystem, RealFileSystem
from ludus.storage.jsonl import JsonlWriter, read_jsonl
from ludus.storage.lock import RunLock
from ludus.storage.quarantine import move_to_quarantine
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.storage.arrow import (
        episodes_from_bytes,
        episodes_from_table,
        episodes_to_bytes,
        episodes_to_table,
        experiences_from_bytes,
        experiences_from_table,
        experiences_to_bytes,
        experiences_to_table,
        from_bytes,
        to_bytes,
    )
    from ludus.storage.segment_file import Segment
    from ludus.storage.segment_reader import SegmentReader
    from ludus.storage.segments import Commit, LogName, Recovery, SegmentLog
    from ludus.storage.tensors import load_metadata, load_tensors, save_tensors, tensors_hash

__all__ = [
    "REAL",
    "Catalog",
    "Checkpoint",
    "CheckpointStore",
    "Commit",
    "FileSystem",
    "JsonlWriter",
    "Limits",
    "LogName",
    "Member",
    "RealFileSystem",
    "Recovery",
    "RunDirectory",
    "RunLock",
    "Segment",
    "SegmentLog",
    "SegmentReader",
    "ensure_directory",
    "episodes_from_bytes",
    "episodes_from_table",
    "episodes_to_bytes",
    "episodes_to_table",
    "experiences_from_bytes",
    "experiences_from_table",
    "experiences_to_bytes",
    "experiences_to_table",
    "from_bytes",
    "load_metadata",
    "load_tensors",
    "move_to_quarantine",
    "publish_directory",
    "read_archive",
    "read_json",
    "read_jsonl",
    "save_tensors",
    "sha256_file",
    "sweep_leftovers",
    "temporary_name",
    "tensors_hash",
    "to_bytes",
    "write_bytes",
    "write_json",
    "write_text",
]

__getattr__ = import_later(__name__)
