"""The rows of a run for whoever looks at them: what was verified, what was refused, and how a person reads a row.

What a run trains on is in `experiences/`. A row of it that is in `refused/` too, or that people rejected (`imports/`),
counts as refused here. Read-only, alive or not.

Invariants: a row is seen once, as verified or as refused. Segments that are trimmed meanwhile, or damaged, are passed
over and counted. A view has all that a person needs to judge a row and, in `EDITABLE`, all that they may change;
everything else says which row it is. Views are JSON: what is not finite is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
from ludus.experience.transforms import last_chosen
from ludus.records import Experiences
from ludus.storage.arrow import experiences_from_batch
from ludus.storage.segment_reader import SegmentReader

REJECTED = "rejected_by_person"
"""The reason of rows that somebody rejected by hand after they had been verified."""
REJECTION = "rejected"
"""What the column `source` of an imported row says when it is a rejection."""

Key = tuple[str, int]
"""Episode, and place in it."""


class KeptRows:
    """What there is to look at in a run."""

    def __init__(self, run_dir: Path) -> None:
        self._verified = SegmentReader(run_dir / "experiences")
        self._refused = SegmentReader(run_dir / "refused")
        self._imports = SegmentReader(run_dir / "imports")
        self.passed_over = 0
        """Segments that could not be read."""
        self._not_used = {key for rows in self.scan_refused() for key in keys_of(rows)}

    def scan(self, *, newest_first: bool = False) -> Iterator[tuple[NDArray[np.int64], Experiences]]:
        """Verified rows, with their numbers in the log of experiences."""
        for first_seq, rows in self._segments(self._verified, newest_first=newest_first):
            used = np.fromiter((key not in self._not_used for key in keys_of(rows)), np.bool_, len(rows))
            if used.any():
                yield first_seq + np.flatnonzero(used), rows if used.all() else rows.take(np.flatnonzero(used))

    def read(self, numbers: Sequence[int]) -> Experiences:
        """Verified rows by their numbers."""
        return self._verified.read_experiences(numbers)

    def scan_refused(self, *, newest_first: bool = False) -> Iterator[Experiences]:
        """Refused rows, with the columns `reason` and `detail`."""
        refused = (rows for _, rows in self._segments(self._refused, newest_first=newest_first))
        rejected = self._scan_rejected()
        yield from chain(rejected, refused) if newest_first else chain(refused, rejected)

    def _scan_rejected(self) -> Iterator[Experiences]:
        """Rows that people rejected, as they were imported."""
        for _, rows in self._segments(self._imports):
            chosen = np.flatnonzero(rows.sequences["source"] == REJECTION)
            if len(chosen):
                found = rows.take(chosen)
                texts = {"reason": REJECTED, "detail": "somebody rejected it by hand"}
                yield found.replace(sequences={name: np.full(len(found), text, object) for name, text in texts.items()})

    def _segments(self, reader: SegmentReader, *, newest_first: bool = False) -> Iterator[tuple[int, Experiences]]:
        starts = reader.starts()
        for first_seq in reversed(starts) if newest_first else starts:
            try:
                _, batch = reader.segment(first_seq)
            except CorruptRecord:
                self.passed_over += 1
                continue
            yield first_seq, experiences_from_batch(batch)


def keys_of(rows: Experiences) -> list[Key]:
    """What tells rows apart."""
    return list(zip(rows.sequences["episode"].tolist(), rows.places.tolist(), strict=True))


EDITABLE = ("accept", "reward", "response", "source", "note")
"""What a person may change. `note` is for themselves."""

Status = Literal["verified", "refused"]
Decoder = Callable[[Sequence[int], bool], str]
"""Tokens as text; the flag says whether the model's marks are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """One row and what became of it."""

    row: Experiences
    """One sequence."""
    status: Status

    @property
    def id(self) -> str:
        """Episode, seat, and the turn where rows are turns."""
        columns = self.row.sequences
        turn = f"/{columns['turn'][0]}" if "turn" in columns else ""
        return f"{columns['episode'][0]}/{columns['seat'][0]}{turn}"


def stored_rows(rows: Experiences, status: Status) -> list[StoredRow]:
    """Each sequence on its own."""
    return [StoredRow(row=rows.take([place]), status=status) for place in range(len(rows))]


def view_row(stored: StoredRow, decode: Decoder | None) -> dict[str, Any]:
    """A row as JSON. Without a decoder its elements are moves on a board, and not words."""
    row, columns = stored.row, {name: column[0] for name, column in stored.row.sequences.items()}
    start, end = last_reply(row)
    said: dict[str, Any] = {"actions": row.steps["action"].tolist()}
    if decode is not None:
        before, after = row.steps["action"][:start].tolist(), row.steps["action"][start:end].tolist()
        said = {"prompt": decode(before, True), "response": decode(after, False)}
    return {
        "id": stored.id,
        "status": stored.status,
        "reason": str(columns.get("reason", "")),
        "detail": str(columns.get("detail", "")),
        "accept": stored.status == "verified",
        "reward": as_number(columns["shaped_reward"]),
        "raw_reward": as_number(columns.get("raw_reward", columns["final_reward"])),
        **said,
        "game": str(columns["game"]),
        "group": str(columns["group"]),
        "task": int(columns["task"]),
        "attempt": int(columns["attempt"]),
        "policy": str(columns["policy"]),
        "version": int(row.steps["version"][start]) if start < row.step_count else 0,
        "truncated": bool(columns["truncated"]),
        **({"greedy": True} if columns.get("greedy") else {}),
    }


def last_reply(row: Experiences) -> tuple[int, int]:
    """Where the last run of chosen elements begins and ends; both the end of the row when nothing was chosen."""
    last = int(last_chosen(row)[0])
    if last < 0:
        return row.step_count, row.step_count
    others = np.flatnonzero(~np.asarray(row.steps["mask"][:last], np.bool_))
    return int(others[-1]) + 1 if len(others) else 0, last + 1


def as_number(value: Any) -> float | None:
    """A float of 32 bits in as few digits as tell it from others; null when it is not finite."""
    return float(str(np.float32(value))) if isfinite(float(value)) else None
