"""F31 for the segment log: any sequence of appends, commits, crashes, restarts and trims, against plain lists.

Model: `live` is what was committed and not trimmed, with its numbers; `ever` is every key that was committed. A crash
forgets what was not committed. Checked after every step: the log shows exactly `live`, and accepts a row exactly when
its key was never committed and is not pending. `LUDUS_EXAMPLES=10000` is the nightly run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ludus.storage.catalog import Catalog
from ludus.storage.filesystem import FileSystem
from ludus.storage.segments import SegmentLog

Key = tuple[int, int, int]  # task, attempt, seat
MEMORY = Path("/dev/shm")
"""SQLite syncs; where that costs nothing, more examples fit into the same time."""
keys = st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 2))


class Unsynced(FileSystem):
    """A disk that does not wait: no power is lost here, and the test is to be quick."""

    def write_file(self, path: Path, pieces: object) -> None:
        path.write_bytes(b"".join(bytes(piece) for piece in pieces))  # type: ignore[attr-defined]

    def sync_file(self, path: Path) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


def table(rows: list[Key]) -> pa.Table:
    return pa.table(
        {
            "episode": pa.array([f"{task}/{attempt}" for task, attempt, _ in rows], pa.string()),
            "task": pa.array([row[0] for row in rows], pa.int64()),
            "attempt": pa.array([row[1] for row in rows], pa.int64()),
            "seat": pa.array([row[2] for row in rows], pa.int64()),
            "action": pa.array([list(row) for row in rows], pa.large_list(pa.int32())),
        }
    )


class SegmentLogMachine(RuleBasedStateMachine):
    """The log and its model, side by side."""

    @initialize()
    def begin(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ludus-log-", dir=MEMORY if MEMORY.is_dir() else None))
        self.live: list[tuple[int, Key]] = []
        self.ends: list[int] = []
        self.ever: set[Key] = set()
        self.pending: list[Key] = []
        self.next_seq = 0
        self.settled = 0
        self.open()

    def open(self) -> None:
        self.catalog = Catalog(self.home / "catalog.sqlite")
        self.log = SegmentLog(self.home, "experiences", self.catalog, fs=Unsynced())
        assert not self.log.recovery.quarantined
        assert not self.log.recovery.missing

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.catalog.close()
            shutil.rmtree(self.home)

    @rule(rows=st.lists(keys, max_size=6))
    def append(self, rows: list[Key]) -> None:
        expected: list[int] = []
        for index, row in enumerate(rows):
            if row not in self.ever and row not in self.pending and row[0] >= self.settled:
                expected.append(index)
                self.pending.append(row)
        assert self.log.append(table(rows)).tolist() == expected

    @rule()
    def commit(self) -> None:
        done = self.log.commit()
        assert (done is None) == (not self.pending)
        if done is None:
            return
        assert (done.first_seq, done.rows) == (self.next_seq, len(self.pending))
        self.live += [(self.next_seq + index, row) for index, row in enumerate(self.pending)]
        self.ever |= set(self.pending)
        self.next_seq += len(self.pending)
        self.ends.append(self.next_seq)
        self.pending = []

    @rule()
    def crash(self) -> None:
        self.catalog.close()
        self.pending = []
        self.open()

    @precondition(lambda self: not self.pending)
    @rule()
    def lose_the_catalog_rows_of_the_newest_segment(self) -> None:
        """What a power loss may do: the transaction of a commit is not durable by itself."""
        with self.catalog.transaction():
            newest = "SELECT max(first_seq) FROM segments WHERE log = 'experiences'"
            self.catalog.execute(f"DELETE FROM segments WHERE first_seq = ({newest})")  # noqa: S608
        self.crash()

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        before = int(self.next_seq * share)
        kept_from = max([end for end in self.ends if end <= before], default=0)
        gone = [number for number, _ in self.live if number < kept_from]
        assert self.log.trim(before) == len(gone)
        self.live = self.live[len(gone) :]

    @rule(task=st.integers(0, 5))
    def settle(self, task: int) -> None:
        self.settled = max(self.settled, task)
        self.log.settle(task)

    @precondition(lambda self: self.live)
    @rule(choice=st.data())
    def read_rows(self, choice: st.DataObject) -> None:
        wanted = choice.draw(st.lists(st.sampled_from(self.live), max_size=5))
        found = self.log.read_experiences([number for number, _ in wanted])
        actions = (
            [found.steps["action"][first:end].tolist() for first, end in pairwise(found.offsets)] if wanted else []
        )
        assert actions == [list(row) for _, row in wanted]

    @invariant()
    def log_shows_what_was_committed_and_not_trimmed(self) -> None:
        if hasattr(self, "log"):
            found = [
                (first + index, (row["task"], row["attempt"], row["seat"]))
                for first, part in self.log.scan()
                for index, row in enumerate(part.to_pylist())
            ]
            assert found == self.live
            assert self.log.next_seq == self.next_seq
            assert len(self.log._keys) == len({row[:2] for _, row in self.live} | {row[:2] for row in self.pending})


SegmentLogMachine.TestCase.settings = settings(
    max_examples=int(os.environ.get("LUDUS_EXAMPLES", "200")),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_segment_log_agrees_with_plain_lists = SegmentLogMachine.TestCase
