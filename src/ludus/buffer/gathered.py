"""Rows that were gathered once, at the beginning of a run, in a folder of their own: segments and `rows.json`.

Invariant: the folder is there whole or not at all, and never changes. Any process reads it without the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
from ludus.records import Experiences, join
from ludus.storage.arrow import experiences_to_table
from ludus.storage.atomic import publish_directory, read_json, write_bytes, write_json
from ludus.storage.segment_file import SegmentEncoder
from ludus.storage.segment_reader import SegmentReader

FORMAT = 1
MANIFEST = "rows.json"
ELEMENTS_PER_SEGMENT = 1_000_000


class GatheredWriter:
    """Writes rows into a staging folder, and gives it its name when all are there."""

    def __init__(self, staging: Path, final: Path) -> None:
        self._staging = staging
        self._final = final
        self._encoder = SegmentEncoder(final.name)
        self._digest = blake2b(digest_size=16)
        self._pending: list[Experiences] = []
        self.rows = 0
        staging.mkdir(parents=True)

    def add(self, rows: Experiences) -> None:
        """Take rows; they are written when there are enough for a file."""
        if not len(rows):
            return
        self._pending.append(rows)
        if sum(part.step_count for part in self._pending) >= ELEMENTS_PER_SEGMENT:
            self._flush()

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Publish the folder, with facts about it for people and for the next start."""
        self._flush()
        note = {**facts, "format": FORMAT, "rows": self.rows, "fingerprint": self._digest.hexdigest()}
        write_json(self._staging / MANIFEST, note)
        publish_directory(self._staging, self._final)

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = join(self._pending)
        self._digest.update(np.ascontiguousarray(rows.lengths).tobytes())
        for name in ("action", "mask", "observation"):
            if name in rows.steps:
                self._digest.update(np.ascontiguousarray(rows.steps[name]).tobytes())
        (batch,) = experiences_to_table(rows).to_batches()
        segment, payload = self._encoder.encode(batch, first_seq=self.rows)
        write_bytes(self._staging / segment.file_name, payload)
        self.rows = segment.end_seq
        self._pending.clear()


class GatheredRows:
    """The rows of a finished folder, by number."""

    def __init__(self, folder: Path) -> None:
        self.facts = read_facts(folder)
        self._rows = int(self.facts["rows"])
        self._reader = SegmentReader(folder)

    def __len__(self) -> int:
        return self._rows

    @property
    def fingerprint(self) -> str:
        """What tells these rows from any others."""
        return str(self.facts["fingerprint"])

    def read(self, places: NDArray[np.int64] | Sequence[int]) -> Experiences:
        """These rows, in this order."""
        return self._reader.read_experiences(places)


def read_facts(folder: Path) -> dict[str, Any]:
    """What `rows.json` says.

    Raises:
        CorruptRecord: it cannot be read, or another version of ludus wrote it.
    """
    facts = read_json(folder / MANIFEST, most_bytes=16_000_000)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT or not isinstance(facts.get("rows"), int):
        raise CorruptRecord(f"{folder / MANIFEST} is not one that this ludus can read")
    return facts
