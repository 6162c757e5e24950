"""What was refused, why, and an example or two: nothing is dropped silently.

Invariants: every refusal is counted under its reason; examples are bounded, so memory is too. The rows themselves, as
they came with the columns `reason` and `detail`, go to the durable log `refused/` of a run. Nothing is trained from
there, so a resume needs none of it; the oldest make room when there is more than `keep_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.records import Experiences
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog

EXAMPLES_KEPT = 3
DETAIL_CHARACTERS = 300
WHOLE_EPISODE = -1
"""The `seat` of a refusal that concerns all of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One sequence, or one whole episode, that will not be trained on."""

    episode: str
    seat: int
    reason: str
    """One of a few words, such as `not_finite`; what refusals are counted by."""
    detail: str
    """What was wrong, where, for a person."""


def with_reasons(rows: Experiences, why: Mapping[int, tuple[str, str]]) -> Experiences:
    """Those of the rows that are refused, in their order, with `reason` and `detail`."""
    if not why:
        return Experiences.empty()
    places = sorted(why)
    reasons, details = zip(*(why[place] for place in places), strict=True)
    columns = {"reason": reasons, "detail": tuple(detail[:DETAIL_CHARACTERS] for detail in details)}
    return rows.take(places).replace(sequences={name: np.array(texts, object) for name, texts in columns.items()})


def refusals_of(rows: Experiences) -> list[Refusal]:
    """Rows with `reason` and `detail` as they are counted."""
    if not len(rows):
        return []
    names = ("episode", "seat", "reason", "detail")
    columns = zip(*(rows.sequences[name].tolist() for name in names), strict=True)
    return [Refusal(episode=str(e), seat=int(s), reason=r, detail=d) for e, s, r, d in columns]


class Refusals:
    """Counts by reason with a few examples each. One thread."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Refusals so far, by reason."""
        return dict(self._counts)

    @property
    def total(self) -> int:
        """All refusals so far."""
        return sum(self._counts.values())

    def examples(self, reason: str) -> tuple[str, ...]:
        """The latest examples of a reason."""
        return tuple(self._examples.get(reason, ()))

    def add(self, refusals: Iterable[Refusal]) -> None:
        """Count refusals."""
        for refusal in refusals:
            seat = "" if refusal.seat == WHOLE_EPISODE else f" seat {refusal.seat}"
            example = f"episode {refusal.episode}{seat}: {refusal.detail}"[:DETAIL_CHARACTERS]
            self._counts[refusal.reason] = self._counts.get(refusal.reason, 0) + 1
            self._examples[refusal.reason] = [*self.examples(refusal.reason), example][-EXAMPLES_KEPT:]

    def write(self, catalog: Catalog, also: Mapping[str, int] | None = None) -> None:
        """Replace the catalog's table, for readers; `also` has what others count, such as the buffer."""
        counts = {**self._counts, **{reason: count for reason, count in (also or {}).items() if count}}
        rows = [(reason, count, "\n".join(self.examples(reason))) for reason, count in counts.items()]
        with catalog.transaction(durable=False):
            catalog.execute("DELETE FROM refused")
            catalog.executemany("INSERT INTO refused(reason, count, example) VALUES(?, ?, ?)", rows)

    def state(self) -> dict[str, Any]:
        """JSON from which `load_state` restores the log."""
        return {"counts": dict(self._counts), "examples": {key: list(value) for key, value in self._examples.items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Replace everything by what `state` returned."""
        self._counts = dict(state["counts"])
        self._examples = {key: list(value) for key, value in state["examples"].items()}


class RefusedLog:
    """What was refused in one run. One thread of the process that holds the run lock."""

    def __init__(self, run_dir: Path, catalog: Catalog) -> None:
        self._log = SegmentLog(run_dir, "refused", catalog)

    def __len__(self) -> int:
        return len(self._log)

    def add(self, *parts: Experiences) -> int:
        """Keep refused rows with one commit; returns how many were new.

        Raises:
            DiskFull: none was acknowledged; add the same rows again when there is space.
        """
        added = 0
        for rows in parts:
            if len(rows):
                added += len(self._log.append(experiences_to_table(rows)))
        self._log.commit()
        return added

    def tasks(self) -> Iterator[list[int]]:
        """Tasks that have rows here, segment by segment."""
        for _, table in self._log.scan():
            yield table.column("task").to_pylist()

    def trim(self, keep_bytes: int, *, settled_before: int = 0) -> int:
        """Drop the oldest segments until no more than this is kept; returns how many rows went.

        Args:
            settled_before: No task below this number will be played again.
        """
        excess, point = self._log.size_bytes() - keep_bytes, 0
        for segment in self._log.segments()[:-1]:
            if excess <= 0:
                break
            excess -= segment.size_bytes
            point = segment.end_seq
        gone = self._log.trim(point) if point else 0
        if gone and settled_before:
            self._log.settle(settled_before)
        return gone
