"""The catalog of a run: small facts in SQLite, readable by anyone with `sqlite3`.

Invariant: one writer (the process that holds the run lock); a transaction is there whole or not at all, and a durable
one survives a power loss once it returns. Observers open it read-only, see a consistent snapshot and never block the
writer (WAL).

Rooms keep their SQL beside their logic: `with catalog.transaction(): catalog.execute(...)`. To add a table: put it
into `SCHEMA` if it is part of the format, and raise `SCHEMA_VERSION` when its meaning changes.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ludus.errors import CorruptRecord, StorageError
from ludus.records import PolicyRef
from ludus.storage.atomic import disk_full
from ludus.storage.filesystem import REAL

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE segments(
    log TEXT, first_seq INTEGER, rows INTEGER, size_bytes INTEGER, checksum TEXT, created REAL,
    PRIMARY KEY(log, first_seq)) WITHOUT ROWID;
CREATE TABLE logs(name TEXT PRIMARY KEY, next_seq INTEGER, trimmed_before INTEGER, settled_before INTEGER);
CREATE TABLE trimmed(
    log TEXT, attempt INTEGER, seat INTEGER, first_task INTEGER, last_task INTEGER,
    PRIMARY KEY(log, attempt, seat, first_task)) WITHOUT ROWID;
CREATE TABLE policies(
    name TEXT, version INTEGER, hash TEXT, created REAL, parent TEXT, PRIMARY KEY(name, version)) WITHOUT ROWID;
CREATE TABLE matches(id TEXT PRIMARY KEY, game TEXT, seats TEXT, returns TEXT, played REAL) WITHOUT ROWID;
CREATE TABLE ratings(
    policy TEXT PRIMARY KEY, name TEXT, version INTEGER, kind TEXT, mu REAL, sigma REAL, games INTEGER,
    mirror_games INTEGER, wins INTEGER, draws INTEGER, losses INTEGER, active INTEGER, created_step INTEGER,
    parent TEXT) WITHOUT ROWID;
CREATE TABLE payoffs(
    game TEXT, policy TEXT, opponent TEXT, seat INTEGER, games INTEGER, wins INTEGER, draws INTEGER, losses INTEGER,
    total REAL, PRIMARY KEY(game, policy, opponent, seat)) WITHOUT ROWID;
CREATE TABLE cursors(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE refused(reason TEXT PRIMARY KEY, count INTEGER, example TEXT) WITHOUT ROWID;
CREATE TABLE quarantined(id INTEGER PRIMARY KEY, source TEXT, reason TEXT, moved_to TEXT, created REAL);
CREATE TABLE checkpoints("update" INTEGER PRIMARY KEY, sha256 TEXT, created REAL);
"""
_BUSY_MS = 10_000
_SCARCE_BYTES = 1_000_000
Row = tuple[Any, ...]


class Catalog:
    """One connection to the catalog, for one writing thread and any number of reading ones."""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = path
        self.readonly = readonly
        self._lock = threading.RLock()
        self._depth = 0
        self._durable = False
        with self._errors():
            self._connection = _connect(path, readonly)
        try:
            with self._errors():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def open_readonly(cls, path: Path) -> Catalog:
        """Open an existing catalog to look at it, whether or not its run is alive."""
        if not path.is_file():
            raise StorageError(f"{path} does not exist")
        return cls(path, readonly=True)

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        """Group statements: all of them happen or none.

        A transaction that is not `durable` is atomic and survives the death of the process; a power loss may take it
        back, unless a durable one came after it. Inside another transaction this is a savepoint.
        """
        with self._lock, self._errors():
            if self._depth and durable and not self._durable:
                raise StorageError("a durable transaction cannot be part of one that is not")
            commit, rollback = self._begin(durable)
            self._depth += 1
            try:
                yield
                self._connection.execute(commit)
            except BaseException:
                if self._connection.in_transaction:
                    for statement in rollback:
                        self._connection.execute(statement)
                raise
            finally:
                self._depth -= 1

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run one statement that writes, inside `transaction()`; return the number of rows it changed."""
        with self._lock, self._errors():
            self._require_transaction()
            return self._connection.execute(sql, values).rowcount

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for many rows, inside `transaction()`."""
        with self._lock, self._errors():
            self._require_transaction()
            self._connection.executemany(sql, rows)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Rows of a SELECT. One call sees one snapshot."""
        with self._lock, self._errors():
            return self._connection.execute(sql, values).fetchall()

    def cursor(self, key: str, default: Any = None) -> Any:
        """The JSON value stored under `key`."""
        rows = self.query("SELECT value FROM cursors WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else default

    def set_cursor(self, key: str, value: Any) -> None:
        """Store a JSON value under `key`, inside `transaction()`."""
        self.execute("INSERT OR REPLACE INTO cursors VALUES(?, ?)", (key, json.dumps(value, allow_nan=False)))

    def add_policy(self, ref: PolicyRef, *, weights_hash: str, parent: PolicyRef | None = None) -> None:
        """Register a published version; registering the same one again changes nothing."""
        row = (ref.name, ref.version, weights_hash, time.time(), str(parent) if parent else "")
        self.execute("INSERT OR IGNORE INTO policies VALUES(?, ?, ?, ?, ?)", row)

    def policies(self, name: str | None = None) -> list[tuple[PolicyRef, str]]:
        """Published versions with their weights hash, by name, oldest first."""
        where, values = ("WHERE name = ?", (name,)) if name else ("", ())
        rows = self.query(f"SELECT name, version, hash FROM policies {where} ORDER BY name, version", values)  # noqa: S608
        return [(PolicyRef(name=row[0], version=row[1]), row[2]) for row in rows]

    def refused(self) -> dict[str, int]:
        """Refused records by reason."""
        return dict(self.query("SELECT reason, count FROM refused"))

    def add_checkpoint(self, update: int, sha256: str) -> None:
        """Note a committed checkpoint."""
        self.execute("INSERT OR REPLACE INTO checkpoints VALUES(?, ?, ?)", (update, sha256, time.time()))

    def close(self) -> None:
        """Close the connection; closing twice is fine."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, durable: bool) -> tuple[str, tuple[str, ...]]:
        """Open a level; return the statement that keeps it and those that undo it."""
        if self._depth:
            name = f"level_{self._depth}"
            self._connection.execute(f"SAVEPOINT {name}")
            return f"RELEASE {name}", (f"ROLLBACK TO {name}", f"RELEASE {name}")
        if durable != self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        self._connection.execute("BEGIN IMMEDIATE")
        return "COMMIT", ("ROLLBACK",)

    def _prepare(self) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise StorageError(
                f"{self.path} has schema {version}, this ludus reads up to {SCHEMA_VERSION}; upgrade ludus to open it"
            )
        if self.readonly:
            return
        self._connection.execute("PRAGMA journal_mode = WAL")
        if version == 0:
            with self.transaction():
                if self._connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                    for statement in SCHEMA.split(";"):
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _require_transaction(self) -> None:
        if not self._depth:
            raise StorageError("catalog writes belong inside `with catalog.transaction():`")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._classified(error) from error
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError):
                raise StorageError(f"{self.path}: {error}") from error
            raise CorruptRecord(
                f"{self.path}: {error}; move it away and it is rebuilt from segments and checkpoints"
            ) from error

    def _classified(self, error: sqlite3.OperationalError) -> StorageError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        scarce = code == sqlite3.SQLITE_IOERR and REAL.free_bytes(self.path.parent) < _SCARCE_BYTES
        if code == sqlite3.SQLITE_FULL or scarce:
            return disk_full(self.path.parent, _SCARCE_BYTES)
        return StorageError(f"{self.path}: {error}")


def _connect(path: Path, readonly: bool) -> sqlite3.Connection:
    target = f"{path.resolve().as_uri()}?mode={'ro' if readonly else 'rwc'}"
    connection = sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection
