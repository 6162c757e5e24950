"""Rows that people brought back: annotated, repaired, or rejected. The log `imports/` of a run.

    source     what becomes of the row
    on_policy  it is in one batch, once, with all others of its group
    expert     it joins the expert rows with their next epoch
    rejected   the row of that name is not used any more

Invariant: a row counts once it is in the log; which of them have been trained on is one number, saved with the
checkpoint. Nobody asks how old these rows are: somebody wanted them.

Decisions come through files in `inbox/`, taken by the process that owns the run. Invariant: such a file is there whole
or not at all, and it is removed only after its rows are in the log, which drops what it has already; so every decision
arrives exactly once, whether the run is alive or not. Its name is made from its contents: writing the same decisions
again changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord, LudusError
from ludus.records import REQUIRED_STEP_COLUMNS, SEQUENCE_COLUMNS, Experiences, places
from ludus.storage.arrow import experiences_from_bytes, experiences_to_bytes, experiences_to_table
from ludus.storage.atomic import ensure_directory, move_to_quarantine, write_bytes
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog

SUFFIX = ".edits"
DECISIONS = ("on_policy", "expert", "rejected")
RowKey = tuple[int, int, int]
"""Task, attempt, and place in the episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Rows given out for one update."""

    experiences: Experiences
    behind: int
    """Rows given out since the start of the run, these included."""


class ImportStore:
    """One thread of the process that holds the run lock."""

    name = "imports"

    def __init__(self, run_dir: Path, catalog: Catalog) -> None:
        self._log = SegmentLog(run_dir, "imports", catalog)
        self._inbox = run_dir / "inbox"
        self._quarantine = run_dir / "quarantine"
        self._on_policy: list[tuple[int, str]] = []
        self._expert: list[int] = []
        self.rejected: set[RowKey] = set()
        """Rows that are not to be used any more."""
        self._known_before = 0
        self._used = 0
        self._open: deque[Imported] = deque()
        self._learn_new_rows()

    @property
    def waiting(self) -> int:
        """On-policy rows that no batch has had yet."""
        return len(self._on_policy) - self._given

    def metrics(self) -> dict[str, float]:
        """Rows that wait, if there are any."""
        return {"buffer/imports_waiting": float(self.waiting)} if self.waiting else {}

    @property
    def expert(self) -> ExpertImports:
        """The expert rows among them, as a shelf."""
        return ExpertImports(self._log, self._expert)

    def take_inbox(self) -> int:
        """Take what people left; returns how many rows are new. Cheap when there is nothing."""
        before = self._log.next_seq
        for path in waiting_in_inbox(self._inbox):
            rows = _read_from_inbox(path, self._quarantine)
            if len(rows):
                self._log.append(experiences_to_table(rows))
                self._log.commit()
            path.unlink(missing_ok=True)
        if self._log.next_seq > before:
            self._learn_new_rows()
        return self._log.next_seq - before

    def claim(self, most: int) -> Imported:
        """The next on-policy rows: whole groups, up to `most` rows unless one group alone has more."""
        end = first = self._given
        while end < len(self._on_policy):
            group = self._group_end(end)
            if group - first > most and end > first:
                break
            end = group
        rows = self._log.read_experiences([number for number, _ in self._on_policy[first:end]])
        imported = Imported(experiences=rows, behind=end)
        self._open.append(imported)
        return imported

    def commit(self, imported: Imported) -> None:
        """They have been trained on. Durable with the next checkpoint, whose manifest holds `state()`."""
        if not self._open or self._open[0] is not imported:
            raise LudusError("claims of imported rows must be committed in the order they were made")
        self._used = self._open.popleft().behind

    def state(self) -> dict[str, Any]:
        """JSON for a checkpoint. Open claims do not count."""
        return {"used": self._used}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint; rows that came after it are there, unused."""
        self._open.clear()
        self._used = min(int(state["used"]), len(self._on_policy))

    @property
    def _given(self) -> int:
        return self._open[-1].behind if self._open else self._used

    def _group_end(self, first: int) -> int:
        """Where the group of the on-policy row at `first` ends; a row without a group is one by itself."""
        name, end = self._on_policy[first][1], first + 1
        while name and end < len(self._on_policy) and self._on_policy[end][1] == name:
            end += 1
        return end

    def _learn_new_rows(self) -> None:
        for first_seq, table in self._log.scan():
            if first_seq < self._known_before:
                continue
            names = ("source", "group", "task", "attempt")
            sources, groups, tasks, attempts = (table.column(name).to_pylist() for name in names)
            turn = table.column("turn").to_numpy() if "turn" in table.column_names else None
            where = places(table.column("seat").to_numpy(), turn).tolist()
            for row, source in enumerate(sources):
                if source in ("on_policy", "usual"):  # the latter in runs before 2026-11-17
                    self._on_policy.append((first_seq + row, groups[row]))
                elif source == "expert":
                    self._expert.append(first_seq + row)
                else:
                    self.rejected.add((tasks[row], attempts[row], where[row]))
        self._known_before = self._log.next_seq


class ExpertImports:
    """Imported expert rows by number; grows as more are imported."""

    def __init__(self, log: SegmentLog, numbers: list[int]) -> None:
        self._log = log
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def read(self, places: NDArray[np.int64] | Sequence[int]) -> Experiences:
        """These rows, in this order."""
        return self._log.read_experiences([self._numbers[int(place)] for place in places])


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


def _read_from_inbox(path: Path, quarantine: Path) -> Experiences:
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
