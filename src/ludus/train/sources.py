"""Where the rows of a batch come from: what the policy did itself, what experts did, preference pairs.

The sequence column `source` says it: `on_policy` (all rows, where the column is absent), `expert` or `pairs`. A row
with a `pair` is of a pair whatever its source says: two rows with the same `pair`, one `chosen` and one not, answers
to one prompt.

Invariant: after `numbered` these columns are numbers, and every pair is whole. Everything here is NumPy.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import TrainError
from ludus.records import Experiences

Ints = NDArray[np.int64]

SOURCES = ("on_policy", "expert", "pairs")
CODES = {name: code for code, name in enumerate(SOURCES)}
ON_POLICY, EXPERT, PAIRS = range(3)
NO_PAIR = -1

LABELS = ("source", "pair", "chosen")
"""Sequence columns that say where a row belongs."""


def numbered(experiences: Experiences) -> dict[str, NDArray[Any]]:
    """The labels of the rows as numbers, `[n]` each; none where all rows are on-policy.

    `source` holds codes, `pair` the number of the row's pair (-1: none).

    Raises:
        TrainError: an unknown source, or a pair that is not one chosen and one rejected answer.
    """
    columns = experiences.sequences
    if not any(name in columns for name in ("source", "pair")):
        return {}
    source = _codes(columns.get("source"), len(experiences))
    if "pair" not in columns:
        if (source == PAIRS).any():
            raise TrainError("rows of the source pairs have no column pair that says which belong together")
        return {"source": source} if source.any() else {}
    chosen = np.asarray(columns.get("chosen", np.zeros(len(experiences), bool)), bool)
    pair = _pair_numbers(columns["pair"].tolist(), chosen)
    source = np.where(pair != NO_PAIR, PAIRS, source)
    if (lost := np.flatnonzero((source == PAIRS) & (pair == NO_PAIR))).size:
        raise TrainError(f"row {int(lost[0])} is of the source pairs but has no pair")
    if not source.any():
        return {}
    return {"source": source} | ({"pair": pair, "chosen": chosen} if (source == PAIRS).any() else {})


def labelled(experiences: Experiences, sources: frozenset[str]) -> Experiences:
    """The rows that come from these sources, with their labels as numbers."""
    others = {name: column for name, column in experiences.sequences.items() if name not in LABELS}
    rows = Experiences(sequences=others | numbered(experiences), offsets=experiences.offsets, steps=experiences.steps)
    wanted = are_from(rows, sources)
    return rows if wanted.all() else rows.take(np.flatnonzero(wanted))


def are_from(rows: Experiences, sources: frozenset[str]) -> NDArray[np.bool_]:
    """Which of the rows, whose labels are numbers, come from these sources, `[n]`; `any` is all of them."""
    if "any" in sources:
        return np.ones(len(rows), bool)
    if "source" not in rows.sequences:
        return np.full(len(rows), "on_policy" in sources)
    return np.isin(rows.sequences["source"], [CODES[name] for name in sources])


def partners(pair: Ints) -> Ints:
    """Where the other row of each row's pair is, `[n]`; its own place for a row without one. Every pair is whole."""
    partner = np.arange(len(pair))
    paired = np.flatnonzero(pair != NO_PAIR)
    first, second = paired[np.argsort(pair[paired], kind="stable")].reshape(-1, 2).T
    partner[first], partner[second] = second, first
    return partner


def keep_pairs_whole(parts: list[Ints], pair: Ints) -> list[Ints]:
    """Parts of rows with every pair in the part in which its first row was; the order of rows is kept otherwise."""
    partner = partners(pair)
    taken: set[int] = set()
    whole: list[Ints] = []
    for part in parts:
        rows: list[int] = []
        for row in part.tolist():
            if row not in taken:
                members = dict.fromkeys((row, int(partner[row])))
                rows.extend(members)
                taken.update(members)
        if rows:
            whole.append(np.array(rows, np.int64))
    return whole


def _codes(source: NDArray[Any] | None, count: int) -> Ints:
    if source is None:
        return np.zeros(count, np.int64)
    names, inverse = np.unique(np.asarray(source, object).astype(str), return_inverse=True)
    if unknown := sorted(set(names.tolist()) - set(SOURCES)):
        raise TrainError(f"unknown source {unknown[0]!r} of experience; expected {', '.join(SOURCES)}")
    return np.array([CODES[name] for name in names.tolist()], np.int64)[inverse]


def _pair_numbers(names: list[Any], chosen: NDArray[np.bool_]) -> Ints:
    """Number the pairs; a pair that is in the batch twice is two pairs, in the order of their rows."""
    answers: dict[Any, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for row, name in enumerate(names):
        if name not in ("", NO_PAIR, None):
            answers[name][0 if chosen[row] else 1].append(row)
    numbers = np.full(len(names), NO_PAIR, np.int64)
    count = 0
    for name, (preferred, rejected) in answers.items():
        if len(preferred) != len(rejected):
            raise TrainError(
                f"pair {name} has {len(preferred)} chosen and {len(rejected)} rejected answers; it needs one of each"
            )
        for couple in zip(preferred, rejected, strict=True):
            numbers[list(couple)] = count
            count += 1
    return numbers
