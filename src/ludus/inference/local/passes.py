"""One forward pass: the slots of the completions being written, which rows of which policy versions are computed, and
for which slots tokens are drawn from what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ludus.inference.local.admission import Reading
from ludus.inference.local.versions import Version
from ludus.inference.protocol import Request
from ludus.lm.kv_cache import BLOCK, NOWHERE
from ludus.lm.rows import FEWEST, Rows, Span
from ludus.lm.sampling import Draws, token_uniforms

Columns = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]
"""Tokens, positions and sequences of rows that follow each other."""

MOST_STOPS = 8
"""Stop tokens that have a row from the beginning; more are made when a request has more."""

SAMPLING = np.dtype(
    [("seed", "u8"), ("temperature", "f4"), ("top_p", "f4"), ("top_k", "i4"), ("limit", "i4")], align=True
)
"""What a request says of its tokens; `limit` is the most that it may have."""


class Slots:
    """What must be known of each completion being written, by column, so that a step touches no Python object.

    A slot's columns belong to one job from `open` until it is closed; columns of closed slots mean nothing. The table
    has one row more than there are slots, whose positions are nowhere: rows that fill up a batch use it.
    """

    def __init__(self, count: int, *, context: int) -> None:
        self.count = count
        self.tokens = np.zeros(count, np.int64)
        """The last token, which is not in the cache yet."""
        self.positions = np.zeros(count + 1, np.int32)
        """Where it stands."""
        self.tables = np.full((count + 1, -(-context // BLOCK)), NOWHERE, np.int32)
        self.written = np.zeros(count, np.int32)
        """Tokens drawn so far."""
        self.out_tokens = np.zeros((count, 0), np.int32)
        self.out_logps = np.zeros((count, 0), np.float32)
        self.out_values = np.zeros((count, 0), np.float32)
        self._sampling = np.zeros(count, SAMPLING)
        self._stops = np.full((MOST_STOPS, count), -1, np.int32)
        self._free = list(range(count - 1, -1, -1))

    @property
    def nowhere(self) -> int:
        """The row of the table that belongs to no sequence."""
        return self.count

    @property
    def free(self) -> int:
        """Slots that are closed."""
        return len(self._free)

    def open(self, request: Request, blocks: list[int]) -> int:
        """Take a slot for a request whose positions are in these blocks."""
        slot = self._free.pop()
        sampling = request.sampling
        self._widen(sampling.max_tokens, len(sampling.stop_tokens))
        self.tables[slot] = NOWHERE
        self.tables[slot, : len(blocks)] = blocks
        self.positions[slot] = len(request.prompt) - 1
        self.written[slot] = 0
        seed = request.seed & 0xFFFF_FFFF_FFFF_FFFF
        self._sampling[slot] = seed, sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens
        self._stops[:, slot] = -1
        self._stops[: len(sampling.stop_tokens), slot] = sorted(sampling.stop_tokens)
        return slot

    def close(self, slot: int) -> None:
        """Give the slot back."""
        self._free.append(slot)

    def draws(self, slots: NDArray[np.int64]) -> Draws:
        """How the next token of each slot is to be drawn."""
        sampling = self._sampling
        return Draws(
            uniforms=token_uniforms(sampling["seed"][slots], self.positions[slots] + 1),
            temperatures=sampling["temperature"][slots],
            top_p=sampling["top_p"][slots],
            top_k=sampling["top_k"][slots],
        )

    def record(
        self,
        slots: NDArray[np.int64],
        tokens: NDArray[np.int32],
        logps: NDArray[np.float32],
        values: NDArray[np.float32] | None,
    ) -> NDArray[np.bool_]:
        """Append one token to each slot; returns which of them are complete."""
        written = self.written[slots]
        self.out_tokens[slots, written] = tokens
        self.out_logps[slots, written] = logps
        if values is not None:
            self.out_values[slots, written] = values
        self.tokens[slots] = tokens
        self.positions[slots] += 1
        self.written[slots] = written + 1
        is_stop = (self._stops.take(slots, 1) == tokens).any(0)
        complete: NDArray[np.bool_] = is_stop | (written + 1 >= self._sampling["limit"][slots])
        return complete

    def so_far(self, slot: int) -> NDArray[np.int32]:
        """The tokens that a slot has written, until it writes the next."""
        return self.out_tokens[slot, : self.written[slot]]

    def stopped(self, slot: int) -> bool:
        """Whether the last token was a stop token."""
        return bool((self._stops[:, slot] == self.tokens[slot]).any())

    def _widen(self, tokens: int, stops: int) -> None:
        if tokens > self.out_tokens.shape[1]:
            more = ((0, 0), (0, tokens - self.out_tokens.shape[1]))
            self.out_tokens = np.pad(self.out_tokens, more)
            self.out_logps = np.pad(self.out_logps, more)
            self.out_values = np.pad(self.out_values, more)
        if stops > len(self._stops):
            self._stops = np.pad(self._stops, ((0, stops - len(self._stops)), (0, 0)), constant_values=-1)


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
