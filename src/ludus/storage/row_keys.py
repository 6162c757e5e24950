"""Which rows a log has ever held: what makes inserting twice a no-op.

Invariant: exact, never a guess. A row is a place (a seat, or one turn of a seat) in an episode. Keys of live rows are
in memory by episode id; keys of trimmed rows are in the catalog as (attempt, place, run of consecutive tasks), merged
as they grow together. Task ids mostly grow, so new rows lie above every trimmed task and are answered without a query.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ludus.errors import StorageError
from ludus.records import places
from ludus.storage.catalog import Catalog

_EPISODE_SEAT = -1
"""The `seat` of a row that is a whole episode."""

_bit = (1).__lshift__


class RowKeys:
    """The key index of one log. The caller holds a transaction around whatever writes."""

    def __init__(self, log: str, catalog: Catalog) -> None:
        self._log = log
        self._is_of_episodes = log == "episodes"
        self._catalog = catalog
        self._live: dict[str, int] = {}  # episode id -> bit set of places
        self._highest_trimmed = -1
        self.settled_before = 0

    def __len__(self) -> int:
        return len(self._live)

    def load(self, settled_before: int) -> None:
        """Start from what the catalog remembers."""
        self._live.clear()
        self.settled_before = settled_before
        rows = self._catalog.query("SELECT max(last_task) FROM trimmed WHERE log = ?", (self._log,))
        self._highest_trimmed = -1 if rows[0][0] is None else rows[0][0]

    def add_fresh(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Add the rows that were never there before; return their indices."""
        self._check_columns(batch)
        known = self._known_by_task(batch, self.settled_before)
        episodes, seats = self._columns(batch)
        if not known and self._live.keys().isdisjoint(episodes) and len(set(episodes)) == len(episodes):
            self._live.update(zip(episodes, map(_bit, seats), strict=True))
            return np.arange(len(episodes))
        fresh = []
        for row, (episode, seat) in enumerate(zip(episodes, seats, strict=True)):
            bits = self._live.get(episode, 0)
            if not bits >> seat & 1 and row not in known:
                self._live[episode] = bits | 1 << seat
                fresh.append(row)
        return np.asarray(fresh, np.int64)

    def restore(self, batch: pa.RecordBatch, *, is_known: bool) -> bool:
        """Take a whole segment found on disk back into memory, or nothing of it if it repeats a row.

        A segment that the catalog knows is not asked about trimmed and settled tasks: its rows are the live ones.
        """
        rows = list(zip(*self._columns(batch), strict=True))
        repeated = len(set(rows)) < len(rows) or any(self._live.get(episode, 0) >> seat & 1 for episode, seat in rows)
        if repeated or (not is_known and self._known_by_task(batch, settled_before=0)):
            return False
        for episode, seat in rows:
            self._live[episode] = self._live.get(episode, 0) | 1 << seat
        return True

    def forget(self, batch: pa.RecordBatch) -> None:
        """Drop rows from memory; `store_trimmed` has put them into the catalog."""
        for episode, seat in zip(*self._columns(batch), strict=True):
            bits = self._live.pop(episode, 0) & ~(1 << seat)
            if bits:
                self._live[episode] = bits

    def store_trimmed(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Remember in the catalog that these rows were there."""
        keys = np.concatenate([self._task_keys(batch) for batch in batches])
        keys = np.unique(keys[keys[:, 2] >= self.settled_before], axis=0)
        if not len(keys):
            return
        breaks = np.flatnonzero(np.any(np.diff(keys, axis=0) != [0, 0, 1], axis=1)) + 1
        for run in np.split(keys, breaks):
            self._merge(int(run[0, 0]), int(run[0, 1]), int(run[0, 2]), int(run[-1, 2]))
        self._highest_trimmed = max(self._highest_trimmed, int(keys[:, 2].max()))

    def settle(self, before_task: int) -> None:
        """Count every task below `before_task` as known, and forget the details."""
        self.settled_before = max(self.settled_before, before_task)
        self._catalog.execute("DELETE FROM trimmed WHERE log = ? AND last_task < ?", (self._log, self.settled_before))

    def _known_by_task(self, batch: pa.RecordBatch, settled_before: int) -> set[int]:
        """Rows that the catalog says were trimmed, or that belong to settled tasks."""
        tasks = batch.column("task").to_numpy()
        if tasks.min() >= max(self._highest_trimmed + 1, settled_before):
            return set()
        settled = {int(row) for row in np.flatnonzero(tasks < settled_before)}
        suspects = np.flatnonzero((tasks <= self._highest_trimmed) & (tasks >= settled_before))
        keys = self._task_keys(batch)
        return settled | {int(row) for row in suspects if self._was_trimmed(*keys[row].tolist())}

    def _was_trimmed(self, attempt: int, seat: int, task: int) -> bool:
        rows = self._catalog.query(
            "SELECT last_task FROM trimmed WHERE log = ? AND attempt = ? AND seat = ? AND first_task <= ? "
            "ORDER BY first_task DESC LIMIT 1",
            (self._log, attempt, seat, task),
        )
        return bool(rows and rows[0][0] >= task)

    def _merge(self, attempt: int, seat: int, first: int, last: int) -> None:
        where = "log = ? AND attempt = ? AND seat = ? AND first_task <= ? AND last_task >= ?"
        values = (self._log, attempt, seat, last + 1, first - 1)
        query = f"SELECT min(first_task), max(last_task) FROM trimmed WHERE {where}"  # noqa: S608
        (low, high), *_ = self._catalog.query(query, values)
        if low is not None:
            self._catalog.execute(f"DELETE FROM trimmed WHERE {where}", values)  # noqa: S608
            first, last = min(first, low), max(last, high)
        self._catalog.execute("INSERT INTO trimmed VALUES(?, ?, ?, ?, ?)", (self._log, attempt, seat, first, last))

    def _check_columns(self, batch: pa.RecordBatch) -> None:
        for name in ("task", "attempt", *(("id",) if self._is_of_episodes else ("episode", "seat"))):
            if batch.schema.get_field_index(name) < 0:
                raise StorageError(f"rows of {self._log} need the column {name!r}")

    def _columns(self, batch: pa.RecordBatch) -> tuple[list[str], list[int]]:
        """Episode id and place in it per row."""
        episodes = batch.column("id" if self._is_of_episodes else "episode").to_numpy(zero_copy_only=False).tolist()
        return episodes, [0] * len(episodes) if self._is_of_episodes else _places(batch).tolist()

    def _task_keys(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """(attempt, place, task) per row, `[n, 3]`."""
        task, attempt = batch.column("task").to_numpy(), batch.column("attempt").to_numpy()
        place = np.full(len(task), _EPISODE_SEAT) if self._is_of_episodes else _places(batch)
        return np.stack([attempt, place, task], axis=1).astype(np.int64)


def _places(batch: pa.RecordBatch) -> NDArray[np.int64]:
    turn = batch.schema.get_field_index("turn")
    return places(batch.column("seat").to_numpy(), batch.column(turn).to_numpy() if turn >= 0 else None)
