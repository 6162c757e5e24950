"""F26: observers open a run while it is written. Nobody is locked out, nobody sees half a transaction."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import ludus.storage
from ludus.storage.catalog import Catalog

OBSERVER = """
import sys, time
from pathlib import Path
from ludus.storage import Catalog
path, reads = Path(sys.argv[1]), 0
print("ready", flush=True)
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    with Catalog.open_readonly(path) as catalog:
        for _ in range(20):
            values = [value for _, value in catalog.query("SELECT key, value FROM cursors WHERE key != 'end'")]
            assert len(set(values)) <= 1, values
            reads += 1
        if catalog.cursor("end"):
            print(reads)
            raise SystemExit(0)
raise SystemExit("the end never came")
"""


def test_observers_see_whole_transactions_and_never_hold_the_writer_up(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.storage.__file__).parents[2])}
    waits = []
    with Catalog(path) as catalog:
        observers = [
            subprocess.Popen(
                [sys.executable, "-c", OBSERVER, str(path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for _ in range(2)
        ]
        for observer in observers:
            assert observer.stdout is not None
            assert observer.stdout.readline() == "ready\n"
        for number in range(300):
            started = time.thread_time()
            with catalog.transaction(durable=False):
                for key in "abc":
                    catalog.set_cursor(key, number)
            waits.append(time.thread_time() - started)
        with catalog.transaction():
            catalog.set_cursor("end", True)
        for observer in observers:
            output, errors = observer.communicate(timeout=60)
            assert observer.returncode == 0, errors
            assert int(output) > 0
    assert sorted(waits)[-3] < 0.1


def test_notebook_in_the_middle_of_a_read_does_not_block_a_durable_write(tmp_path: Path) -> None:
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        with catalog.transaction():
            catalog.set_cursor("n", 0)
        notebook = sqlite3.connect(tmp_path / "catalog.sqlite")
        notebook.execute("BEGIN")
        assert notebook.execute("SELECT value FROM cursors").fetchall() == [("0",)]
        for number in range(20):
            with catalog.transaction():
                catalog.set_cursor("n", number)
        assert notebook.execute("SELECT value FROM cursors").fetchall() == [("0",)]
        notebook.rollback()
        assert json.loads(notebook.execute("SELECT value FROM cursors").fetchone()[0]) == 19
        notebook.close()
