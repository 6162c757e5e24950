"""The peer of `ludus bench store`: a plain SQLite table, as a careful person would write it in an afternoon.

One row per experience, its step columns packed into a blob, a unique key, one transaction per batch, WAL.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.records import Experiences

_STEP_COLUMNS = {"action": "<i4", "logp": "<f4", "value": "<f4", "reward": "<f4", "version": "<i4", "mask": "?"}
_STEP_BYTES = sum(np.dtype(kind).itemsize for kind in _STEP_COLUMNS.values())


class SqliteStore:
    """A durable store of experiences in one table."""

    def __init__(self, directory: Path, *, batch: int) -> None:
        self._batch = batch
        self._database = sqlite3.connect(directory / "plain.sqlite", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(
            "CREATE TABLE experience(id INTEGER PRIMARY KEY, key TEXT UNIQUE, state INTEGER, facts TEXT, steps BLOB)"
        )
        self._database.execute("CREATE INDEX by_state ON experience(state, id)")

    def write(self, experiences: Experiences) -> None:
        """Insert one row per sequence, durably."""
        columns = {name: column.tolist() for name, column in experiences.sequences.items()}
        rows = [self._row(experiences, columns, index) for index in range(len(experiences))]
        with self._transaction("FULL"):
            self._database.executemany(
                "INSERT OR IGNORE INTO experience(key, state, facts, steps) VALUES(?, 0, ?, ?)", rows
            )

    def read(self) -> Experiences:
        """Claim the oldest unread rows, unpack them, mark them done, durably."""
        with self._transaction("NORMAL"):
            rows = self._database.execute(
                "SELECT id, facts, steps FROM experience WHERE state = 0 ORDER BY id LIMIT ?", (self._batch,)
            ).fetchall()
            span = (rows[0][0], rows[-1][0])
            self._database.execute("UPDATE experience SET state = 1 WHERE id BETWEEN ? AND ?", span)
        experiences = self._unpacked(rows)
        with self._transaction("FULL"):
            self._database.execute("UPDATE experience SET state = 2 WHERE id BETWEEN ? AND ?", span)
        return experiences

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @contextmanager
    def _transaction(self, synchronous: str) -> Iterator[None]:
        self._database.execute(f"PRAGMA synchronous = {synchronous}")
        self._database.execute("BEGIN IMMEDIATE")
        yield
        self._database.execute("COMMIT")

    @staticmethod
    def _row(experiences: Experiences, columns: dict[str, list[Any]], index: int) -> tuple[str, str, bytes]:
        facts = {name: values[index] for name, values in columns.items()}
        start, stop = int(experiences.offsets[index]), int(experiences.offsets[index + 1])
        steps = b"".join(experiences.steps[name][start:stop].tobytes() for name in _STEP_COLUMNS)
        return f"{facts['episode']}/{facts['seat']}", json.dumps(facts), steps

    @staticmethod
    def _unpacked(rows: list[tuple[int, str, bytes]]) -> Experiences:
        facts = [json.loads(row[1]) for row in rows]
        counts = [len(row[2]) // _STEP_BYTES for row in rows]
        steps: dict[str, NDArray[Any]] = {}
        before = 0
        for name, kind in _STEP_COLUMNS.items():
            parts = zip(rows, counts, strict=True)
            steps[name] = np.concatenate([np.frombuffer(row[2], kind, n, before * n) for row, n in parts])
            before += np.dtype(kind).itemsize
        return Experiences(
            sequences={name: np.array([fact[name] for fact in facts]) for name in facts[0]},
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            steps=steps,
        )
