"""Every byte on disk: atomic files, manifests, Arrow segments, the catalog, the run lock.

What needs pyarrow or safetensors is imported when it is first used, so that looking at a run stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.lazy import import_later
from ludus.storage.atomic import publish_directory, read_json, sweep_leftovers, write_bytes, write_json, write_text
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.jsonl import JsonlWriter, read_jsonl
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.storage.segment_reader import SegmentReader
    from ludus.storage.segments import SegmentLog
    from ludus.storage.tensors import load_tensors, save_tensors

__all__ = [
    "Catalog",
    "Checkpoint",
    "CheckpointStore",
    "JsonlWriter",
    "RunDirectory",
    "RunLock",
    "SegmentLog",
    "SegmentReader",
    "load_tensors",
    "publish_directory",
    "read_json",
    "read_jsonl",
    "save_tensors",
    "sweep_leftovers",
    "write_bytes",
    "write_json",
    "write_text",
]

__getattr__ = import_later(__name__)
