"""One forward pass: which rows of which policy versions, and for which slots tokens are drawn from what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ludus.inference.local.admission import Job
from ludus.inference.local.slots import Slots
from ludus.inference.local.versions import Version
from ludus.lm.rows import FEWEST, Rows, Span

Columns = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]
"""Tokens, positions and sequences of rows that follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Tokens of a prompt that are computed in this pass."""

    job: Job
    stop: int
    """The first token after them."""

    @property
    def is_last(self) -> bool:
        """Whether the prompt is computed after this."""
        return self.stop == len(self.job.prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one policy version computes in a pass."""

    version: Version
    writing: NDArray[np.int64]
    """Slots whose next token is due."""
    readings: Sequence[Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Rows, and the slots that draw."""

    rows: Rows
    slots: NDArray[np.int64]
    """`[k]`."""
    sources: NDArray[np.int64] | None
    """`[k]`: which of the wanted rows each slot draws from; None if each from its own, in order."""


def make_pass(slots: Slots, parts: Sequence[Part]) -> Pass:
    """Put rows together. Followers draw from the last row of their leader's prompt."""
    if len(parts) == 1 and not parts[0].readings and len(parts[0].writing) >= FEWEST:
        return _writing_pass(slots, parts[0])
    building = _Building(slots)
    for part in parts:
        building.add(part)
    return building.finish()


def _writing_pass(slots: Slots, part: Part) -> Pass:
    """The most frequent case by far: one version, no prompts."""
    writing, count = part.writing, len(part.writing)
    rows = Rows(
        tokens=slots.tokens[writing],
        positions=slots.positions[writing],
        sequences=writing.astype(np.int32),
        tables=slots.tables,
        wanted=None,
        spans=(Span(weights=part.version.weights, start=0, stop=count, first_wanted=0, last_wanted=count),),
    )
    return Pass(rows=rows, slots=writing, sources=None)


class _Building:
    """A pass, part by part."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._columns: list[Columns] = []
        self._count = 0
        self._wanted: list[int] = []
        self._drawing: list[int] = []
        self._sources: list[int] = []
        self._spans: list[Span] = []

    def add(self, part: Part) -> None:
        start, first_wanted = self._count, len(self._wanted)
        slots, writing = self._slots, part.writing
        self._append((slots.tokens[writing], slots.positions[writing], writing))
        self._drawing += writing.tolist()
        self._sources += range(first_wanted, first_wanted + len(writing))
        self._wanted += range(start, self._count)
        for reading in part.readings:
            self._append(_reading_columns(reading))
            if reading.is_last:
                readers = [job.slot for job in (reading.job, *reading.job.followers)]
                self._drawing += readers
                self._sources += [len(self._wanted)] * len(readers)
                self._wanted.append(self._count - 1)
        self._spans.append(
            Span(
                weights=part.version.weights,
                start=start,
                stop=self._count,
                first_wanted=first_wanted,
                last_wanted=len(self._wanted),
            )
        )

    def finish(self) -> Pass:
        """Fill up to the fewest rows that products may have; those belong to the last span."""
        missing = FEWEST - self._count
        if missing > 0:
            nowhere = np.full(missing, self._slots.nowhere, np.int64)
            self._append((np.zeros(missing, np.int64), np.zeros(missing, np.int32), nowhere))
            self._spans[-1] = replace(self._spans[-1], stop=self._count)
        if self._wanted:
            self._wanted += [0] * (FEWEST - len(self._wanted))
        tokens, positions, sequences = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        rows = Rows(
            tokens=tokens,
            positions=positions,
            sequences=sequences.astype(np.int32),
            tables=self._slots.tables,
            wanted=np.array(self._wanted, np.int64),
            spans=tuple(self._spans),
        )
        return Pass(rows=rows, slots=np.array(self._drawing, np.int64), sources=np.array(self._sources, np.int64))

    def _append(self, columns: Columns) -> None:
        self._columns.append(columns)
        self._count += len(columns[0])


def _reading_columns(reading: Reading) -> Columns:
    job = reading.job
    positions = np.arange(job.computed, reading.stop, dtype=np.int32)
    tokens = job.prompt[job.computed : reading.stop].astype(np.int64)
    return tokens, positions, np.full(len(positions), job.slot, np.int64)
