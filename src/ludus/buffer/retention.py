"""How far the log may be trimmed. Invariant: nothing that a resume or an open claim could read is ever trimmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ludus.storage.segment_file import Segment


def first_needed(state: Mapping[str, Any]) -> int:
    """The lowest sequence number that a checkpoint with this buffer state could still read."""
    live = state["live"]
    return int(live[0][0]) if live else int(state["next_seq"])


def trim_point(segments: Sequence[Segment], needed_from: int, keep_bytes: int) -> int:
    """The sequence number before which segments go, so that at most `keep_bytes` of what nobody needs stay."""
    unneeded = [segment for segment in segments if segment.end_seq <= needed_from]
    kept = 0
    for segment in reversed(unneeded):
        kept += segment.size_bytes
        if kept > keep_bytes:
            return segment.end_seq
    return unneeded[0].first_seq if unneeded else needed_from
