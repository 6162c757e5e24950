"""All runs that feed this one (`buffer.feeds`), as one stream of rows into its buffer, and batches of those.

Invariants:
- A row is inserted exactly once. It is in this run's own log before the cursor of its feed passes it; the cursors are
  part of the checkpoint, and what is read again after a resume is known by its key.
- Rows come in right after a checkpoint only (`runs/cycle.py` sees to it), feed by feed in turn. So a run that is
  killed meanwhile finds the same checkpoint, the same rows and, where the feeds have not grown, the same window.
- With `cycle` all that is new comes in before a round, and the oldest rows make room. Without it rows come in as far as
  there is room, and the rest waits where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ludus.buffer import Buffer
from ludus.errors import CorruptRecord
from ludus.experience import Refusals, recheck
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.run_store import RunStore
from ludus.records import Experiences, join
from ludus.sources.async_rollouts import AsyncRollouts
from ludus.sources.feed import Feed
from ludus.sources.row_store import RowStore
from ludus.sources.task_issuer import TaskIssuer
from ludus.storage.arrow import experiences_from_batch
from ludus.storage.atomic import read_json, write_json
from ludus.storage.catalog import Catalog
from ludus.storage.segment_follower import SETTLE_S, SegmentFollower

FORMAT = 1
MOST_ROWS, MOST_SEGMENTS = 4096, 64
"""Of one insertion: it is one file, and one moment in which nobody looks after the workers."""


class Feeds:
    """Give `take_in` a moment now and then. One thread."""

    def __init__(
        self,
        context: RunContext,
        catalog: Catalog,
        buffer: Buffer,
        refusals: Refusals,
        *,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._context = context
        self._buffer = buffer
        self._refusals = refusals
        self._slides = context.config.cycle is not None
        self._known = _read_known(context)
        self._cursors: dict[str, int] = {}
        self._counts = {"taken": 0, "missed": 0, "damaged": 0}
        self._turn = 0
        self._room = buffer.limits.capacity
        entries = enumerate(context.config.buffer.feeds)
        self._feeds = [
            Feed(f"buffer.feeds.{place}", entry, context, catalog, self._number_of, settle_s=settle_s)
            for place, entry in entries
        ]

    def take_in(self, *, is_starving: bool = False) -> bool:
        """Insert a part of what is new; returns whether that was all there is to be had now.

        Args:
            is_starving: there is nothing to train on, so that something must come in even where there is no room.
        """
        for _ in self._feeds:
            feed, self._turn = self._feeds[self._turn], (self._turn + 1) % len(self._feeds)
            if self._take_from(feed, is_starving=is_starving):
                return False
        return not any(feed.follower.is_settling for feed in self._feeds if feed.follower is not None)

    @property
    def metrics(self) -> dict[str, float]:
        """Rows taken in, rows that were gone or damaged before, and segments that could not be read, over the run."""
        return {f"buffer/feeds_{name}": float(count) for name, count in self._counts.items()}

    def state(self) -> dict[str, Any]:
        """For the checkpoint; from now on there is as much room as the buffer has now."""
        self._room = self._buffer.limits.capacity - len(self._buffer)
        return {"known": self._known, "cursors": self._cursors, "counts": self._counts, "turn": self._turn}

    def load_state(self, state: dict[str, Any], *, rows: int) -> None:
        """Go back to a checkpoint, whose window had so many rows."""
        self._room = self._buffer.limits.capacity - rows
        if len(state.get("known", ())) > len(self._known):
            self._known = [dict(known) for known in state["known"]]
        self._cursors = {str(name): int(cursor) for name, cursor in state.get("cursors", {}).items()}
        self._counts |= {name: int(count) for name, count in state.get("counts", {}).items() if name in self._counts}
        self._turn = int(state.get("turn", 0)) % max(len(self._feeds), 1)

    def _take_from(self, feed: Feed, *, is_starving: bool) -> int:
        """Insert some of what a feed has; returns how many rows of it were dealt with."""
        follower = feed.follow(self._cursors)
        if follower is None:
            return 0
        damaged, missed = follower.damaged, follower.missed
        parts, ends = self._read(follower, is_starving=is_starving)
        if parts:
            self._insert(feed, parts)
        self._cursors[feed.name] = follower.cursor
        damaged, missed = follower.damaged - damaged, follower.missed - missed
        self._counts["damaged"] += damaged
        self._counts["missed"] += missed
        if damaged or missed:
            self._context.telemetry.event("feed_lost_rows", run=str(feed.run.path), damaged=damaged, missed=missed)
        return ends

    def _read(self, follower: SegmentFollower, *, is_starving: bool) -> tuple[list[Experiences], int]:
        """The next segments, as far as they fit; their number of rows, also of those that make no sense."""
        parts: list[Experiences] = []
        rows = segments = 0
        while segments < MOST_SEGMENTS and rows < MOST_ROWS and (found := follower.next()) is not None:
            segment, batch = found
            fits = self._slides or segment.rows <= self._room or (is_starving and not segments)
            if not fits:
                break
            self._room -= segment.rows
            rows, segments = rows + segment.rows, segments + 1
            try:
                parts.append(experiences_from_batch(batch))
            except CorruptRecord:
                follower.damaged, follower.missed = follower.damaged + 1, follower.missed + segment.rows
            follower.take(segment)
        return parts, rows

    def _insert(self, feed: Feed, parts: list[Experiences]) -> None:
        kept: list[Experiences] = []
        meters = self._context.telemetry.meters
        for part in parts:
            sound, refused = recheck(part, self._context.specs)
            self._refusals.add(refused)
            meters.add("experience", len(sound), dropped=len(refused))
            if len(sound):
                kept.append(feed.adopt(sound))
        if kept:
            added = self._buffer.insert(join(kept))
            self._counts["taken"] += added
            meters.add("buffer", added)

    def _number_of(self, name: str, path: Path) -> int:
        names = [known["id"] for known in self._known]
        if name in names:
            return names.index(name)
        self._known = [*self._known, {"id": name, "run": str(path)}]
        write_json(self._context.run.feeds, {"format": FORMAT, "feeds": self._known})
        return len(names)


class FeedSource(AsyncRollouts):
    """A buffer that other runs fill."""

    def __init__(
        self,
        context: RunContext,
        rows: RowStore,
        issuer: TaskIssuer,
        progress: Progress,
        store: RunStore,
        **options: Any,
    ) -> None:
        super().__init__(context, rows, issuer, progress, store, explores=False, **options)
        self._telemetry = context.telemetry
        self._feeds = Feeds(context, store.catalog, rows.buffer, rows.sink.refusals)

    @property
    def is_exhausted(self) -> bool:
        """Other runs may bring more at any time."""
        return False

    def take_in(self, wanted: int) -> bool:
        """Take a part of what feeds bring; returns whether there is no more now."""
        is_starving, self.is_dry = self.is_dry, False  # it is fed after this, or will be found so again
        with self._telemetry.room("buffer"):
            return self._feeds.take_in(is_starving=is_starving)

    def state(self) -> dict[str, Any]:
        """With the cursor of each feed."""
        return {**super().state(), "feeds": self._feeds.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        super().load_state(state)
        rows = sum(count for _, count, *_ in state["buffer"]["live"])
        self._feeds.load_state(state.get("feeds", {}), rows=rows)

    def metrics(self) -> dict[str, float]:
        """With what feeds have brought."""
        return {**super().metrics(), **self._feeds.metrics}


def _read_known(context: RunContext) -> list[dict[str, str]]:
    """The runs that have a number here; the place of each is its number."""
    path = context.run.feeds
    try:
        return [dict(known) for known in read_json(path)["feeds"]] if path.is_file() else []
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptRecord(f"{path} does not say which runs fed this one: {error!r}") from error
