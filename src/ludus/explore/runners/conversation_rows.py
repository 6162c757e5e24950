"""Conversations as one columnar batch: a training sequence each, or one for each of their replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.explore.runners.assembly import DTYPES
from ludus.inference.conversation import Columns
from ludus.records import SEQUENCE_COLUMNS, Experiences

Row = tuple[dict[str, Any], Columns]
"""The sequence columns of one sequence, and its step columns."""


def gather_rows(rows: Sequence[Row], *, has_turns: bool) -> Experiences:
    """One batch of these sequences; `has_turns`: they say which turn of their seat they are."""
    if not rows:
        return Experiences.empty()
    names = (*SEQUENCE_COLUMNS, "turn") if has_turns else SEQUENCE_COLUMNS
    kinds: dict[str, Any] = {**DTYPES, "turn": np.int64}
    sequences: dict[str, NDArray[Any]] = {
        name: np.array([facts.get(name, 0) for facts, _ in rows], kinds.get(name, object)) for name in names
    }
    parts = [columns for _, columns in rows]
    lengths = [len(part["action"]) for part in parts]
    return Experiences(
        sequences=sequences,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        steps={name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
    )
