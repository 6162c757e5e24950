"""`ludus bench store`: what durable experience costs, beside a plain SQLite table.

Experiences of 256 tokens (64 of a prompt, 192 sampled) with log-probabilities, values, rewards, mask and versions, in
batches of 64. Written: converted, checked for repetition, on disk and synced, one commit per batch. Read: claimed,
found, verified, turned into numpy columns, and the commit persisted. Both sides store the same columns and give the
same promises: every write and every commit of a read survives a power loss; a claim survives the death of the process
(one that a power loss takes back is a batch that was not trained on, which is what a restart makes of it anyway).

Counted in CPU-seconds of this process, all threads, user and system. Rounds are interleaved and figures are medians.
The stores are made below the working directory, where runs are, not on a /tmp that may be memory.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.bench.measuring import Figure
from ludus.errors import LudusError
from ludus.records import Experiences
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segment_reader import SegmentReader
from ludus.storage.segments import SegmentLog

BATCH = 64
PROMPT = 64
TOKENS = 256
BATCHES_PER_TURN = 40
MOST_ROUNDS = 7
"""Files are kept until the end, so that deleting them is no part of it: 28 MB per round."""
UNIT = "experiences per CPU-second"
PEER = "plain sqlite3"
_STEP_COLUMNS = {"action": "<i4", "logp": "<f4", "value": "<f4", "reward": "<f4", "version": "<i4", "mask": "?"}
_STEP_BYTES = sum(np.dtype(kind).itemsize for kind in _STEP_COLUMNS.values())


class SegmentStore:
    """Ours: the log and the catalog of a run; reading goes through a reader of its own, as in a trainer."""

    def __init__(self, directory: Path) -> None:
        run = RunDirectory(directory)
        run.create("name: bench\n")
        self._catalog = Catalog(run.catalog)
        self._log = SegmentLog(run.path, "experiences", self._catalog)
        self._reader = SegmentReader(self._log.directory)
        self._position = 0

    def write(self, experiences: Experiences) -> None:
        """Append and commit."""
        self._log.append(experiences_to_table(experiences))
        self._log.commit()

    def read(self) -> Experiences:
        """Claim, read, commit."""
        start, stop = self._position, self._position + BATCH
        with self._catalog.transaction(durable=False):
            self._catalog.set_cursor("bench/claimed", stop)
        experiences = self._reader.read_experiences(np.arange(start, stop))
        with self._catalog.transaction():
            self._catalog.set_cursor("bench/committed", stop)
        self._position = stop
        return experiences

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()


class SqliteStore:
    """The peer: a plain SQLite table, as a careful person would write it in an afternoon.

    One row per experience, its step columns packed into a blob, a unique key, one transaction per batch, WAL.
    """

    def __init__(self, directory: Path) -> None:
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
                "SELECT id, facts, steps FROM experience WHERE state = 0 ORDER BY id LIMIT ?", (BATCH,)
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


Store = SegmentStore | SqliteStore


def bench_store(
    *, rounds: int = 3, seconds: float = 10.0, directory: Path | None = None, batches: int = BATCHES_PER_TURN
) -> list[Figure]:
    """Measure both stores in turn, in as many short rounds as fit into `rounds` times `seconds`, at least `rounds`."""
    costs: dict[str, list[float]] = {}
    deadline = time.monotonic() + rounds * seconds
    with tempfile.TemporaryDirectory(prefix=".bench-store-", dir=directory or Path.cwd()) as root:
        _round(Path(root), "warm-up", batches, flip=False)
        for number in range(max(rounds, MOST_ROUNDS)):
            if number >= rounds and time.monotonic() > deadline:
                break
            for name, cost in _round(Path(root), str(number), batches, flip=bool(number % 2)).items():
                costs.setdefault(name, []).append(cost)
    rates = {name: batches * BATCH / median(values) for name, values in costs.items()}
    return [
        Figure.against("written", rates["ludus write"], UNIT, PEER, rates["plain write"]),
        Figure.against("read", rates["ludus read"], UNIT, PEER, rates["plain read"]),
    ]


def make_batch(number: int) -> Experiences:
    """One batch of token sequences; no two numbers give the same episodes or contents."""
    rng = np.random.default_rng(number)
    count = BATCH * TOKENS
    text = {"game": "text:bench", "policy": "main", "group": f"prompt-{number}"}
    return Experiences(
        sequences={
            "episode": np.array([f"{number:012x}{row:012x}" for row in range(BATCH)], object),
            "task": np.arange(number * BATCH, (number + 1) * BATCH),
            "attempt": np.zeros(BATCH, np.int64),
            "seat": np.zeros(BATCH, np.int64),
            **{name: np.array([value] * BATCH, object) for name, value in text.items()},
            "final_reward": rng.normal(size=BATCH).astype(np.float32),
            "shaped_reward": rng.normal(size=BATCH).astype(np.float32),
            "truncated": np.zeros(BATCH, np.bool_),
        },
        offsets=np.arange(BATCH + 1) * TOKENS,
        steps={
            "action": rng.integers(0, 50_000, count).astype(np.int32),
            "mask": np.tile(np.arange(TOKENS) >= PROMPT, BATCH),
            "logp": rng.normal(size=count).astype(np.float32),
            "value": rng.normal(size=count).astype(np.float32),
            "reward": rng.normal(size=count).astype(np.float32),
            "version": np.full(count, number, np.int32),
        },
    )


def _round(root: Path, name: str, count: int, *, flip: bool) -> dict[str, float]:
    """CPU-seconds of one turn of writing and one of reading for each store, on fresh ones."""
    batches = [make_batch(index) for index in range(count)]
    homes = {side: root / f"{name}-{side}" for side in ("ludus", "plain")}
    for home in homes.values():
        home.mkdir()
    stores: list[tuple[str, Store]] = [
        ("ludus", SegmentStore(homes["ludus"])),
        ("plain", SqliteStore(homes["plain"])),
    ]
    order = stores[::-1] if flip else stores
    costs = {f"{side} write": _write(store, batches) for side, store in order}
    costs |= {f"{side} read": _read(store, batches) for side, store in order}
    for _, store in stores:
        store.close()
    return costs


def _write(store: Store, batches: list[Experiences]) -> float:
    started = time.process_time()
    for batch in batches:
        store.write(batch)
    return time.process_time() - started


def _read(store: Store, batches: list[Experiences]) -> float:
    started = time.process_time()
    for batch in batches:
        found = store.read()
        if not np.array_equal(found.steps["logp"], batch.steps["logp"]):
            raise LudusError("the store gave back something else than was written")
    return time.process_time() - started
