"""The rows of a run for whoever looks at them: what was verified, and what was refused. Read-only, alive or not.

What a run trains on is in `experiences/`. A row of it that is in `refused/` too, or that people rejected (`imports/`),
counts as refused here.

Invariant: a row is seen once, as verified or as refused. Segments that are trimmed meanwhile, or damaged, are passed
over and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
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
        self._not_used = self._find_refused()

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
        if newest_first:
            yield from self._scan_rejected()
        for _, rows in self._segments(self._refused, newest_first=newest_first):
            yield rows
        if not newest_first:
            yield from self._scan_rejected()

    def _scan_rejected(self) -> Iterator[Experiences]:
        """Rows that people rejected, as they were imported."""
        for _, rows in self._segments(self._imports):
            chosen = np.flatnonzero(rows.sequences["source"] == REJECTION)
            if len(chosen):
                found = rows.take(chosen)
                texts = {"reason": REJECTED, "detail": "somebody rejected it by hand"}
                yield found.replace(sequences={name: np.full(len(found), text, object) for name, text in texts.items()})

    def _find_refused(self) -> set[Key]:
        found: set[Key] = set()
        for rows in self.scan_refused():
            found.update(keys_of(rows))
        return found

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
