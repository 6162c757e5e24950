"""The catalog: transactions, versions, errors."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.errors import CorruptRecord, StorageError
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.catalog import SCHEMA_VERSION, Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path / "catalog.sqlite") as opened:
        yield opened


def fail_after_writing(catalog: Catalog, *keys: str) -> None:
    with catalog.transaction():
        for key in keys:
            catalog.set_cursor(key, "never seen")
        raise StorageError


def test_transaction_happens_whole_or_not_at_all(catalog: Catalog) -> None:
    with catalog.transaction():
        catalog.set_cursor("a", {"n": [1, 2]})
    with pytest.raises(StorageError):
        fail_after_writing(catalog, "a", "b")
    assert catalog.cursor("a") == {"n": [1, 2]}
    assert catalog.cursor("b") is None
    assert catalog.cursor("b", 7) == 7


def test_inner_transaction_can_fail_alone(catalog: Catalog) -> None:
    with catalog.transaction():
        catalog.set_cursor("outer", 1)
        with pytest.raises(StorageError):
            fail_after_writing(catalog, "inner")
        with catalog.transaction(durable=False):
            catalog.set_cursor("second", 1)
    assert [catalog.cursor(key) for key in ("outer", "inner", "second")] == [1, None, 1]


def test_durable_inside_a_transaction_that_is_not_is_refused(catalog: Catalog) -> None:
    with pytest.raises(StorageError, match="durable"), catalog.transaction(durable=False), catalog.transaction():
        pass
    with catalog.transaction():
        catalog.set_cursor("still", "works")


def test_writing_outside_a_transaction_is_refused(catalog: Catalog) -> None:
    with pytest.raises(StorageError, match="transaction"):
        catalog.set_cursor("a", 1)


def test_durable_transactions_sync_and_others_do_not(catalog: Catalog) -> None:
    with catalog.transaction(durable=False):
        assert catalog.query("PRAGMA synchronous") == [(1,)]
    with catalog.transaction():
        assert catalog.query("PRAGMA synchronous") == [(2,)]
    assert catalog.query("PRAGMA journal_mode") == [("wal",)]


def test_a_policy_is_registered_once(catalog: Catalog) -> None:
    ref = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))
    with catalog.transaction():
        catalog.add_policy(ref, weights_hash="abc")
        catalog.add_policy(ref, weights_hash="abc")
    assert catalog.policies() == catalog.policies("main") == [(ref, "abc")]


def test_newer_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog(path).close()
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    database.close()
    for readonly in (False, True):
        with pytest.raises(StorageError, match=f"schema {SCHEMA_VERSION + 1}.*upgrade"):
            Catalog(path, readonly=readonly)


def test_file_that_is_no_database_is_a_corrupt_record(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"garbage" * 1000)
    with pytest.raises(CorruptRecord, match="move it away"):
        Catalog(tmp_path / "catalog.sqlite")


def test_readonly_sees_but_cannot_change_and_does_not_create(tmp_path: Path, catalog: Catalog) -> None:
    with catalog.transaction():
        catalog.set_cursor("a", 1)
    with Catalog.open_readonly(catalog.path) as observer:
        assert observer.cursor("a") == 1
        with pytest.raises(StorageError, match="readonly"), observer.transaction():
            observer.set_cursor("a", 2)
    with pytest.raises(StorageError, match="does not exist"):
        Catalog.open_readonly(tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()


def test_readonly_opens_the_catalog_of_a_run_that_has_ended(tmp_path: Path) -> None:
    with Catalog(tmp_path / "catalog.sqlite") as catalog, catalog.transaction():
        catalog.set_cursor("a", 1)
    with Catalog.open_readonly(tmp_path / "catalog.sqlite") as observer:
        assert observer.cursor("a") == 1


def test_threads_may_read_while_one_writes(catalog: Catalog) -> None:
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                pair = [catalog.query("SELECT key, value FROM cursors ORDER BY key")][0]
                assert len({value for _, value in pair}) <= 1
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(100):
        with catalog.transaction(durable=False):
            catalog.set_cursor("left", number)
            catalog.set_cursor("right", number)
    done.set()
    for reader in readers:
        reader.join()
    assert not failures


@pytest.fixture
def foreign(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """Another program's connection, which has the catalog locked."""
    monkeypatch.setattr("ludus.storage.database._BUSY_S", 0.05)
    connection = sqlite3.connect(catalog.path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


def fail_after_keeping(catalog: Catalog) -> None:
    with catalog.transaction(durable=False):
        catalog.set_cursor("a", "never seen")
        raise StorageError


def test_what_is_written_while_another_program_holds_the_catalog_is_kept_in_its_order(
    catalog: Catalog, foreign: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        with catalog.transaction(durable=False):
            catalog.set_cursor("a", number)
            with catalog.transaction(durable=False):
                catalog.executemany("INSERT INTO cursors VALUES(?, ?)", [(f"n{number}", "1")])
    with pytest.raises(StorageError):
        fail_after_keeping(catalog)
    assert catalog.cursor("a") is None
    assert [r.getMessage() for r in caplog.records] == [
        f"{catalog.path} is locked by another program; the run goes on and writes to it later"
    ]
    foreign.execute("ROLLBACK")
    with catalog.transaction(durable=False):
        catalog.set_cursor("b", 1)
    assert [catalog.cursor(key) for key in ("a", "n0", "n1", "n2", "b")] == [2, 1, 1, 1, 1]
    assert "is free again" in caplog.text


def test_what_was_kept_is_written_when_the_catalog_is_closed(catalog: Catalog, foreign: sqlite3.Connection) -> None:
    with catalog.transaction(durable=False):
        catalog.set_cursor("a", 1)
    foreign.execute("ROLLBACK")
    catalog.close()
    with Catalog.open_readonly(catalog.path) as observer:
        assert observer.cursor("a") == 1


def test_a_durable_transaction_waits_for_the_other_program_and_says_so(
    catalog: Catalog, foreign: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def write() -> None:
        with catalog.transaction():
            catalog.set_cursor("a", 1)

    writer = threading.Thread(target=write)
    writer.start()
    end = time.monotonic() + 20.0
    while "waiting for it" not in caplog.text:
        assert time.monotonic() < end
        os.sched_yield()
    assert writer.is_alive()
    foreign.execute("ROLLBACK")
    writer.join(20.0)
    assert catalog.cursor("a") == 1


def test_a_lock_that_never_ends_is_an_error_with_a_remedy(
    catalog: Catalog, foreign: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.storage.database._MOST_BUSY_S", 0.0)
    with pytest.raises(StorageError, match=r"locked by another program; close that \(fuser -v"), catalog.transaction():
        pass
    foreign.execute("ROLLBACK")
    with catalog.transaction():
        catalog.set_cursor("a", 1)
