"""The catalog of a run: small facts in SQLite, readable by anyone with `sqlite3`.

Invariant: one writer (the process that holds the run lock); a transaction is there whole or not at all, and a durable
one survives a power loss once it returns. Observers open it read-only, see a consistent snapshot and never block the
writer (WAL). Another program's lock does not stop it: see `Database`.

Rooms keep their SQL beside their logic: `with catalog.transaction(): catalog.execute(...)`. To add a table: put it
into `SCHEMA` if it is part of the format, and raise `SCHEMA_VERSION` when its meaning changes.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from ludus.errors import CorruptRecord, StorageError
from ludus.records import PolicyRef
from ludus.storage.database import Database

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
REBUILD = "the next start of the run (ludus run with its config) builds it anew from checkpoints and segments"
_MOST_SHOWN = 200
_PEEK_S = 0.2
GLANCE_S = 0.5
"""What a page waits for a catalog that another program has locked; others wait for the page."""
_COUNTED = ("segments", "logs", "policies", "refused", "checkpoints")
"""Tables whose integers are counts and numbers from 0."""
_TYPES = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'"}


@cache
def _columns() -> dict[str, list[tuple[str, str]]]:
    """Name and type of every column, by table; `matches`, which grows with the run, is not looked at."""
    tables = (statement.strip() for statement in SCHEMA.split(";") if statement.strip())
    found = {each.split()[2].split("(")[0]: each.partition("(")[2] for each in tables}
    del found["matches"]
    return {table: re.findall(r'("?\w+"?) (INTEGER|REAL|TEXT)', columns) for table, columns in found.items()}


def _is_bad(name: str, kind: str, table: str) -> str:
    """SQL: whether a column has something else than it is declared for."""
    negative = f" OR {name} < 0" if kind == "INTEGER" and table in _COUNTED else ""
    text = f" OR NOT json_valid({name})" if (table, name) == ("cursors", "value") else ""
    return f"typeof({name}) NOT IN ({_TYPES[kind]}){negative}{text}"


def peek_cursor(path: Path, key: str) -> Any:
    """One cursor of a catalog of which nothing else is asked, nor checked; None where it cannot be had at once."""
    log = f"{path}-wal"
    try:
        # Without a log nobody is writing: the file is read as it is, without the locks, which take most of the time.
        is_at_rest = not os.path.exists(log) or not os.path.getsize(log)
        target = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_at_rest else ''}"
        with closing(sqlite3.connect(target, uri=True, timeout=_PEEK_S)) as connection:
            rows = connection.execute("SELECT value FROM cursors WHERE key = ?", (key,)).fetchall()
        return json.loads(rows[0][0]) if rows else None
    except (OSError, sqlite3.Error, ValueError, TypeError):
        return None


class Catalog(Database):
    """One connection to the catalog, for one writing thread and any number of reading ones."""

    @classmethod
    def open_readonly(cls, path: Path, *, patience_s: float | None = None) -> Catalog:
        """Open an existing catalog to look at it, whether or not its run is alive."""
        if not path.is_file():
            raise StorageError(f"{path} does not exist; {REBUILD}")
        return cls(path, readonly=True, patience_s=patience_s)

    def _check_values(self) -> None:
        """See that every column holds what it is declared for.

        Raises:
            CorruptRecord: one does not; the message names the table and its row.
        """
        for table, columns in _columns().items():
            bad = " OR ".join(_is_bad(name, kind, table) for name, kind in columns)
            for row in self.query(f"SELECT * FROM {table} WHERE {bad} LIMIT 1"):  # noqa: S608 - names of SCHEMA
                text = str(row) if len(str(row)) < _MOST_SHOWN else f"{str(row)[:_MOST_SHOWN]} ..."
                raise CorruptRecord(
                    f"{self.path}: table {table} has a row that cannot be: {text}. Move the file away; {REBUILD}"
                )

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

    def refused_examples(self) -> dict[str, str]:
        """The newest example of each reason, in a line."""
        rows = self.query("SELECT reason, example FROM refused")
        return {reason: example.strip().rpartition("\n")[2] for reason, example in rows if example.strip()}

    def add_checkpoint(self, update: int, sha256: str) -> None:
        """Note a committed checkpoint."""
        self.execute("INSERT OR REPLACE INTO checkpoints VALUES(?, ?, ?)", (update, sha256, time.time()))

    def _prepare(self) -> None:
        version = self.query("PRAGMA user_version")[0][0]
        if version > SCHEMA_VERSION:
            raise StorageError(
                f"{self.path} has schema {version}, this ludus reads up to {SCHEMA_VERSION}; upgrade ludus to open it"
            )
        if self.readonly and version == 0:
            raise CorruptRecord(f"{self.path} is empty, or no catalog of a run; {REBUILD}")
        if not self.readonly:
            self._make_tables(version)
        self._check_values()

    def _make_tables(self, version: int) -> None:
        self._patiently(lambda: self._connection.execute("PRAGMA journal_mode = WAL"))
        if version == 0:
            with self.transaction():
                if self._connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                    for statement in SCHEMA.split(";"):
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
