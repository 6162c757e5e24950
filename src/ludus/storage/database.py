"""A SQLite file that other programs may lock for a while, without stopping whoever writes to it.

Invariant: a transaction is there whole or not at all, and in its order. While another program has the file locked,
transactions that are not durable are buffered in memory and written before the next one that gets through; whatever
else needs the file waits, with a warning and a bound.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from ludus.errors import CorruptRecord, StorageError
from ludus.storage.atomic import disk_full
from ludus.storage.filesystem import REAL

_BUSY_S = 2.0
"""The writer waits so long for another program before it goes on without the catalog."""
_OBSERVER_BUSY_S = 10.0
_MOST_BUSY_S = 600.0
"""What cannot do without waits so long, and says so."""
_MOST_PENDING = 10_000
_LOOK_S = 0.02
_SCARCE_BYTES = 1_000_000
Row = tuple[Any, ...]
Statement = tuple[str, list[Sequence[Any]]]
"""SQL, and the values of each time it is run."""
T = TypeVar("T")

log = logging.getLogger(__name__)


class Database(ABC):
    """One connection, for one writing thread and any number of reading ones."""

    def __init__(self, path: Path, *, readonly: bool = False, patience_s: float | None = None) -> None:
        """`patience_s` is waited for other programs that have the file locked."""
        self.path = path
        self.readonly = readonly
        self._lock = threading.RLock()
        self._depth = 0
        self._durable = False
        self._pending: deque[list[Statement]] = deque()
        """Transactions that were not written because another program has the catalog locked."""
        self._buffering: list[Statement] | None = None
        """Statements of the transaction that is being buffered, while there is one."""
        with self._errors():
            usual_s = _OBSERVER_BUSY_S if readonly else _BUSY_S
            self._connection = _connect(path, readonly, usual_s if patience_s is None else patience_s)
        try:
            with self._errors():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        """Group statements: all of them happen or none.

        A transaction that is not `durable` is atomic and survives the death of the process; a power loss may take it
        back, unless a durable one came after it. Inside another transaction this is a savepoint.
        """
        with self._lock, self._errors():
            if self._depth and durable and not self._durable:
                raise StorageError("a durable transaction cannot be part of one that is not")
            level = None if self._buffering is not None else self._begin_if_free(durable)
            if level is None:
                with self._buffer():
                    yield
                return
            commit, rollback = level
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
        """Run one statement that writes, inside `transaction()`; return the number of rows it changed, if known."""
        with self._lock, self._errors():
            self._require_transaction()
            if self._buffering is not None:
                self._buffering.append((sql, [values]))
                return 0
            return self._connection.execute(sql, values).rowcount

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for many rows, inside `transaction()`."""
        with self._lock, self._errors():
            self._require_transaction()
            if self._buffering is not None:
                self._buffering.append((sql, list(rows)))
            else:
                self._connection.executemany(sql, rows)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Rows of a SELECT. One call sees one snapshot."""
        with self._lock, self._errors():
            return self._patiently(lambda: self._connection.execute(sql, values).fetchall())

    def close(self) -> None:
        """Write what is pending, and close the connection; closing twice is fine."""
        with self._lock:
            try:
                if self._pending:
                    self._patiently(self._write_pending, _OBSERVER_BUSY_S)
            except sqlite3.Error as error:
                log.warning("%s: %s; the next start brings it up to date", self.path, error)
            finally:
                self._pending.clear()
                self._connection.close()

    def __enter__(self) -> Self:
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
        if self._pending:
            self._write_pending()
        self._connection.execute("BEGIN IMMEDIATE")
        return "COMMIT", ("ROLLBACK",)

    @contextlib.contextmanager
    def _buffer(self) -> Iterator[None]:
        """Buffer the statements of a transaction: all of them, or none if it fails."""
        outer, mine = self._buffering, list[Statement]()
        self._buffering = mine
        self._depth += 1
        try:
            yield
            self._pending.append(mine) if outer is None else outer.extend(mine)
        finally:
            self._buffering = outer
            self._depth -= 1

    def _begin_if_free(self, durable: bool) -> tuple[str, tuple[str, ...]] | None:
        """Open a level, after what is pending is written; None when another program has the catalog locked."""
        if durable or self._depth or self.readonly or len(self._pending) > _MOST_PENDING:
            return self._patiently(lambda: self._begin(durable))
        try:
            return self._begin(durable)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        if not self._pending:
            log.warning("%s is locked by another program; the run goes on and writes to it later", self.path)
            _set_patience(self._connection, 0.0)
        return None

    def _write_pending(self) -> None:
        """Write the pending transactions. Raises OperationalError when the catalog is still locked."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for sql, values in (statement for statements in self._pending for statement in statements):
                self._connection.executemany(sql, values)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._pending.clear()
        _set_patience(self._connection, _BUSY_S)
        log.warning("%s is free again, and up to date", self.path)

    def _patiently(self, action: Callable[[], T], most_s: float | None = None) -> T:
        """Do something that cannot do without the catalog: wait for another program that has it, but not for ever."""
        most_s = _MOST_BUSY_S if most_s is None else most_s
        end, is_told = time.monotonic() + (0.0 if self.readonly else most_s), False
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > end:
                    raise
            if not is_told:
                is_told = True
                log.warning("%s is locked by another program; waiting for it, at most %g s", self.path, most_s)
            time.sleep(_LOOK_S)

    @abstractmethod
    def _prepare(self) -> None:
        """Make the tables, or see that those that are there can be read."""

    def _require_transaction(self) -> None:
        if not self._depth:
            raise StorageError("catalog writes belong inside `with catalog.transaction():`")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise _classified(self.path, error) from error
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError):
                raise StorageError(f"{self.path}: {error}") from error
            raise CorruptRecord(
                f"{self.path}: {error}; move it away and it is rebuilt from segments and checkpoints"
            ) from error


def _classified(path: Path, error: sqlite3.OperationalError) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    scarce = code == sqlite3.SQLITE_IOERR and REAL.free_bytes(path.parent) < _SCARCE_BYTES
    if code == sqlite3.SQLITE_FULL or scarce:
        return disk_full(path.parent, _SCARCE_BYTES)
    if _is_busy(error):
        return StorageError(f"{path} is locked by another program; close that (fuser -v {path} names it)")
    return StorageError(f"{path}: {error}")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _connect(path: Path, readonly: bool, patience_s: float) -> sqlite3.Connection:
    target = f"{path.resolve().as_uri()}?mode={'ro' if readonly else 'rwc'}"
    connection = sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False)
    _set_patience(connection, patience_s)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _set_patience(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
