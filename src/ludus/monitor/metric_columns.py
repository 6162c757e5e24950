"""The metrics of a run as columns, read on as the file grows.

Invariant: whatever the file holds, reading it raises nothing but OSError, costs memory that is bounded by the size of
the file, and a line is read once. A run that was resumed goes through steps again that it had done: of each metric
what came later counts.
"""

from __future__ import annotations

import json
import os
import threading
from array import array
from collections import OrderedDict
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from ludus.storage.jsonl import rotated

MOST_NAMES = 5000
MOST_LINE_BYTES = 4_000_000
BLOCK_BYTES = 1 << 20
"""Read at a time; its lines are taken at once where they hold nothing but numbers, as ours do."""
MOST_POINTS = 6_000_000
"""Over all runs that are kept; the run that nobody asked for longest goes first."""
Numbers = NDArray[np.float64]
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_numbers = msgspec.json.Decoder(dict[str, float | None]).decode_lines


class MetricColumns:
    """One run's metrics. One thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._offset = 0
        self._steps, self._times = array("d"), array("d")
        self._columns: dict[str, tuple[array[int], array[float]]] = {}
        self.skipped_lines = 0
        """Whole lines that are no object, or too long."""
        self.skipped_names = 0
        self.points = 0

    def refresh(self) -> None:
        """Read what has come since the last time.

        Raises:
            OSError: the file is there and cannot be read.
        """
        older = rotated(self._path)
        identity = (_inode(older), _inode(self._path))
        if identity != self._identity or _size(self._path) < self._offset:
            self._forget()
            self._identity = identity
            self._read(older)
            self._offset = 0
        self._read(self._path)

    def names(self) -> list[str]:
        """Every metric that was ever told, by name."""
        return sorted(self._columns)

    def last(self, name: str) -> tuple[float, float]:
        """Step and value of the newest point."""
        rows, values = self._columns[name]
        return self._steps[rows[-1]], values[-1]

    def curve(self, name: str) -> tuple[Numbers, Numbers, Numbers]:
        """Steps, times and values of a metric, each `[N]`; steps rise. Empty where there is no such metric."""
        if name not in self._columns:
            empty = np.zeros(0)
            return empty, empty, empty
        rows, values = (np.array(column) for column in self._columns[name])
        steps, times = np.array(self._steps)[rows], np.array(self._times)[rows]
        later = np.minimum.accumulate(np.append(steps[1:], np.inf)[::-1])[::-1]
        keep = steps < later
        return steps[keep], times[keep], np.asarray(values[keep], dtype=np.float64)

    def _read(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                while True:
                    file.seek(self._offset)
                    block = file.read(BLOCK_BYTES)
                    lines = block[: block.rfind(b"\n") + 1]
                    if lines and self._take_block(lines):
                        self._offset += len(lines)
                    elif not block or not self._read_lines(file, self._offset + len(block)):
                        return
        except FileNotFoundError:
            return

    def _take_block(self, lines: bytes) -> bool:
        """Take many lines at once; nothing is taken where one of them holds more than numbers."""
        try:
            records = _decode_numbers(lines)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if any(record.get("step") is None for record in records):
            return False
        for names, group in groupby(records, key=tuple):
            values = np.array([list(record.values()) for record in group], np.float64)
            at = values[:, names.index("time")] if "time" in names else np.full(len(values), np.nan)
            rows = np.arange(len(self._steps), len(self._steps) + len(values), dtype=np.uintc)
            self._steps.frombytes(values[:, names.index("step")].tobytes())
            self._times.frombytes(at.tobytes())
            for place, name in enumerate(names):
                if name not in ("step", "time") and (column := self._column(name)) is not None:
                    column[0].frombytes(rows.tobytes())
                    column[1].frombytes(values[:, place].tobytes())
                    self.points += len(values)
        return True

    def _read_lines(self, file: BinaryIO, end: int) -> bool:
        """Read line by line until a place is reached; whether it was."""
        file.seek(self._offset)
        while self._offset < end and (line := file.readline(MOST_LINE_BYTES)):
            if not line.endswith(b"\n"):
                if len(line) < MOST_LINE_BYTES:
                    return False  # torn, or not whole yet: read again the next time
                self.skipped_lines += 1
                while line and not line.endswith(b"\n"):
                    line = file.readline(MOST_LINE_BYTES)
            else:
                self._take(line)
            self._offset = file.tell()
        return self._offset >= end

    def _take(self, line: bytes) -> None:
        record = _parse(line)
        step = None if record is None else record.get("step")
        if record is None or not isinstance(step, int | float):
            self.skipped_lines += 1
            return
        row, at = len(self._steps), record.get("time")
        self._steps.append(_number(step))
        self._times.append(_number(at) if isinstance(at, int | float) else float("nan"))
        for name, value in record.items():
            if name in ("step", "time") or not (value is None or isinstance(value, int | float)):
                continue
            if (column := self._column(name)) is not None:
                column[0].append(row)
                column[1].append(float("nan") if value is None else _number(value))
                self.points += 1

    def _column(self, name: str) -> tuple[array[int], array[float]] | None:
        """Rows and values of a metric; None where there are too many metrics."""
        column = self._columns.get(name)
        if column is None:
            if len(self._columns) >= MOST_NAMES:
                self.skipped_names += 1
                return None
            column = self._columns[name] = (array("I"), array("d"))
        return column


class ColumnCache:
    """The columns of the runs that were asked for last. Any thread."""

    def __init__(self, *, most_points: int = MOST_POINTS) -> None:
        self._most_points = most_points
        self._kept: OrderedDict[Path, tuple[threading.Lock, MetricColumns]] = OrderedDict()
        self._lock = threading.Lock()

    def curves(self, path: Path, names: list[str]) -> dict[str, tuple[Numbers, Numbers, Numbers]]:
        """Curves of a run's metrics, as `MetricColumns.curve` gives them."""
        lock, columns = self._find(path)
        with lock:
            columns.refresh()
            found = {name: columns.curve(name) for name in names}
        self._trim()
        return found

    def newest(self, path: Path) -> tuple[dict[str, tuple[float, float]], int]:
        """Step and newest value of every metric of a run, and how many lines could not be read."""
        lock, columns = self._find(path)
        with lock:
            columns.refresh()
            found = {name: columns.last(name) for name in columns.names()}, columns.skipped_lines
        self._trim()
        return found

    def _find(self, path: Path) -> tuple[threading.Lock, MetricColumns]:
        with self._lock:
            kept = self._kept.setdefault(path, (threading.Lock(), MetricColumns(path)))
            self._kept.move_to_end(path)
            return kept

    def _trim(self) -> None:
        with self._lock:
            while len(self._kept) > 1 and sum(each.points for _, each in self._kept.values()) > self._most_points:
                self._kept.popitem(last=False)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:  # NaN and infinities, which other programs write
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("nan")


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
