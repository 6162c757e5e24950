"""A row of experience as a person reads it, and as it is written to a file to be annotated.

Invariant: a view has all that a person needs to judge a row and, in `EDITABLE`, all that they may change; everything
else says which row it is. Views are JSON: what is not finite is null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from ludus.experience.transform_phases import last_chosen
from ludus.records import Experiences

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
