"""The catalog: transactions, versions, errors."""

from __future__ import annotations

import sqlite3
import threading
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
