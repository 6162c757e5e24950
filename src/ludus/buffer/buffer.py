"""The sliding window between explorers and trainer, over the durable log of experiences.

Invariants:
- `insert` returned = the rows are on disk; a row that was ever there is not inserted again.
- A row is in at most `reuse` committed batches of the history that a checkpoint belongs to. What a checkpoint does not
  know of (batches after it, rows after it) counts as not having happened, so rows acknowledged later are unused.
- A batch never holds a row twice, nor one that is more than `max_staleness` versions of this run's policy behind, nor
  one that was trained on in the last `cooldown` batches. Rows of one group that may be used come into a batch together.
- Neither side waits for ever: see `limits.py`.

One thread of the process that holds the run lock owns a buffer. Trainers read claimed rows from the segment files.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.buffer.limits import Stock, make_limits, may_claim, rows_wanted
from ludus.buffer.rows import RowFacts, facts_of, facts_of_table
from ludus.buffer.samplers import SAMPLERS, Eligible, choose_groups
from ludus.buffer.window import (
    Window,
    decode_rests,
    decode_runs,
    encode_rests,
    encode_runs,
    first_needed,
    trim_point,
)
from ludus.config import BufferConfig
from ludus.errors import LudusError
from ludus.records import Experiences
from ludus.storage.arrow import experiences_to_table
from ludus.storage.segments import SegmentLog

log = logging.getLogger(__name__)

LEAST_PRIORITY, MOST_PRIORITY = 1e-6, 1e6
MOST_HALVINGS = 60
COUNTERS = ("inserted", "duplicates", "committed", "stale", "evicted_unused", "evicted_used", "lost", "discarded")
"""Rows since the start of the run: inserted, dropped as repetitions, given to committed batches, refused as too old,
pushed out by newer ones before or after their first use, gone from the log while they were still wanted, and taken out
because somebody said so."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claim:
    """Which rows, and how far behind the claiming version they are. Any process can read the rows by their numbers."""

    id: int
    rows: NDArray[np.int64]
    """Sequence numbers in the experience log, `[n]`, in the order of the batch."""
    staleness: NDArray[np.int64]
    """Versions that each row is behind, `[n]`, by its oldest element."""

    def __len__(self) -> int:
        return len(self.rows)


class Buffer:
    """Insert, claim, commit. Rows are sequences: what one learning seat did in one episode."""

    def __init__(
        self,
        log: SegmentLog,
        config: BufferConfig,
        *,
        batch_rows: int,
        rows_per_episode: int = 1,
        concurrency: int = 1,
        max_staleness: int | None = None,
        interval: int = 1,
    ) -> None:
        """Open the buffer on its log: every row there is unused until `load_state` says otherwise.

        Args:
            batch_rows: Sequences per batch.
            rows_per_episode: Sequences that an episode brings, at most: its learning seats.
            concurrency: Episodes that may be played at the same time.
            max_staleness: Versions that a row may be behind when it is claimed; None for no bound.
            interval: Updates between two versions.
        """
        self.limits = make_limits(config, batch_rows=batch_rows, max_staleness=max_staleness, interval=interval)
        self._config = config
        self._log = log
        self._rows_per_episode = rows_per_episode
        self._concurrency = concurrency
        self._window = Window(self.limits.reuse, rests=config.cooldown > 0)
        self._claims: dict[int, Claim] = {}
        self._next_claim = 0
        self._batches = 0
        self._known_before = 0
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._take_new_rows_of_log()

    def __len__(self) -> int:
        return len(self._window)

    @property
    def counters(self) -> dict[str, int]:
        """Rows since the start of the run, by what became of them, and how many are in the window now."""
        return {**self._counters, "size": len(self._window)}

    def insert(self, experiences: Experiences) -> int:
        """Make rows durable with one commit, and available; return how many were new.

        Raises:
            DiskFull: none was acknowledged; insert the same rows again when there is space.
        """
        if not len(experiences):
            return 0
        table = experiences_to_table(experiences)
        fresh = self._log.append(table)
        done = self._log.commit()
        added = done.rows if done else 0
        self._counters["duplicates"] += max(len(experiences) - added, 0)
        if done is None:
            return 0
        if added == len(fresh) and done.first_seq == self._known_before:
            self._admit(facts_of(experiences).take(fresh, first_seq=done.first_seq))
            self._known_before = done.end_seq
        else:
            # Rows of an insert that failed came along: the log knows best what it wrote.
            self._take_new_rows_of_log()
        return added

    def claim(self, version: int, *, seed: int) -> Claim | None:
        """Take a batch to train `version` on, or None while there is not enough.

        The choice is a pure function of the window and `seed`. Rows that are too old leave the window here, counted.
        A batch has `batch_rows` rows, or a few more where the last group would be cut.
        """
        if self.limits.max_staleness is not None:
            stale = self._window.versions_behind(version) > self.limits.max_staleness
            self._counters["stale"] += int((stale & (self._window.uses_left() > 0)).sum())
            self._window.drop(stale)
        stock = self._stock()
        if not may_claim(self.limits, stock):
            return None
        places = np.flatnonzero(self._window.eligible(self._batches + len(self._claims)))
        usage = self._window["usage"][places] + self._window["pending"][places]
        halvings = np.minimum(usage + np.maximum(self._window.versions_behind(version)[places], 0), MOST_HALVINGS)
        eligible = Eligible(
            usage=usage,
            priority=self._window["priority"][places] * np.exp2(-halvings.astype(np.float64)),
            priority_exponent=self._config.priority_exponent,
        )
        sampler, rng = SAMPLERS[self._config.sampler], np.random.default_rng(seed)
        group = self._window["group"][places]
        if group.any():
            chosen = choose_groups(sampler, eligible, group, self.limits.batch_rows, rng)
        else:
            chosen = np.sort(sampler(eligible, self.limits.batch_rows, rng))
        return self._open_claim(places[chosen], version)

    def claim_tasks(self, first_task: int, count: int, *, version: int = 0) -> Claim:
        """Take exactly the rows of tasks `[first_task, first_task + count)`, in the order of (task, seat).

        For the synchronous schedule: the same batch whatever the order of insertion. Of a task that was played in
        several attempts the first counts. No limit applies.
        """
        task = self._window["task"]
        places = np.flatnonzero((task >= first_task) & (task < first_task + count) & (self._window.uses_left() > 0))
        seat, attempt, task = (self._window[name][places] for name in ("seat", "attempt", "task"))
        order = np.lexsort((seat, attempt, task))
        places, task, attempt = places[order], task[order], attempt[order]
        _, first = np.unique(task, return_index=True)
        first_attempt = np.repeat(attempt[first], np.diff(np.append(first, len(task))))
        return self._open_claim(places[attempt == first_attempt], version)

    def read(self, claim: Claim) -> Experiences:
        """The claimed sequences, in the order of the claim."""
        return self._log.read_experiences(claim.rows)

    def commit(self, claim: Claim) -> None:
        """The batch has been trained on. Durable with the next checkpoint, whose manifest holds `state()`."""
        places = self._close_claim(claim)
        self._counters["committed"] += len(claim)
        self._batches += 1
        self._window["usage"][places] += 1
        self._window["ready"][places] = self._batches + self._config.cooldown
        self._window.drop(self._window["usage"] >= self.limits.reuse)

    def abandon(self, claim: Claim) -> None:
        """The batch was not trained on: its rows are as if it had never been claimed."""
        self._close_claim(claim)

    def discard(self, keys: Iterable[tuple[int, int, int]] = (), *, tasks: Collection[int] = ()) -> int:
        """Take rows out of the window, by (task, attempt, place in the episode) or all of some tasks; returns how many
        were there.

        They stay in the log, and in the batches that have them. Say it again after `load_state`.
        """
        doomed = {tuple(key) for key in keys}
        if not (doomed or tasks) or not len(self._window):
            return 0
        columns = (self._window[name].tolist() for name in ("task", "attempt", "seat"))
        gone = np.isin(self._window["task"], list(tasks))
        gone |= np.fromiter((key in doomed for key in zip(*columns, strict=True)), np.bool_, len(self._window))
        self._window.drop(gone)
        self._counters["discarded"] += int(gone.sum())
        return int(gone.sum())

    def may_explore(self, running: int, *, unpublished: int = 0) -> int:
        """Episodes that may be started now, while `running` are being played, so many updates after their version."""
        episodes = ceil(rows_wanted(self.limits, self._stock(unpublished)) / self._rows_per_episode)
        return max(min(self._concurrency, episodes) - running, 0)

    def state(self) -> dict[str, Any]:
        """JSON for a checkpoint: which rows are live and how often each was used. Open claims do not count."""
        window = self._window
        return {
            "next_seq": self._known_before,
            "live": encode_runs(window["seq"], window["usage"], window["priority"]),
            "resting": encode_rests(window["seq"], window["ready"], self._batches),
            "batches": self._batches,
            "counters": dict(self._counters),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint. Rows acknowledged after it are kept, as unused."""
        self._log.reserve(int(state["next_seq"]))
        self._claims.clear()
        self._counters = {name: int(state["counters"].get(name, 0)) for name in COUNTERS}
        self._batches = int(state.get("batches", 0))
        rows, usage, priority = decode_runs(state["live"])
        self._window.clear()
        self._known_before = 0
        self._take_new_rows_of_log(live=rows, unknown_from=int(state["next_seq"]))
        places = self._window.find(rows)
        found = np.isin(rows, self._window["seq"][places])
        self._window["usage"][places] = usage[found]
        self._window["priority"][places] = priority[found]
        resting, ready = decode_rests(state.get("resting", ()))
        here = np.isin(resting, self._window["seq"])
        self._window["ready"][self._window.find(resting)] = ready[here]
        missing = int((~found).sum())
        if missing:
            log.error("%d rows that the checkpoint still wanted are gone from the log", missing)
            self._counters["lost"] += missing
        # The config may ask for fewer uses or a smaller window than when the checkpoint was made.
        self._window.drop(self._window["usage"] >= self.limits.reuse)
        self._evict()

    def trim(self, retained: Iterable[Mapping[str, Any]] = (), *, keep_bytes: int = 0) -> int:
        """Drop segments that nothing can need any more; return how many rows went.

        Args:
            retained: The buffer states of all checkpoints that a resume may go back to.
            keep_bytes: Let this much of what is not needed stay, newest first, for people to look at.
        """
        needed = [first_needed(state) for state in retained]
        needed += [int(claim.rows.min()) for claim in self._claims.values() if len(claim)]
        needed.append(int(self._window["seq"][0]) if len(self._window) else self._known_before)
        return self._log.trim(trim_point(self._log.segments(), min(needed), keep_bytes))

    def _open_claim(self, places: NDArray[np.int64], version: int) -> Claim:
        rows, staleness = self._window["seq"][places].copy(), self._window.versions_behind(version)[places]
        self._window["pending"][places] += 1
        claim = Claim(id=self._next_claim, rows=rows, staleness=staleness)
        self._next_claim += 1
        self._claims[claim.id] = claim
        return claim

    def _close_claim(self, claim: Claim) -> NDArray[np.int64]:
        """Forget an open claim; return where those of its rows are that have not been evicted meanwhile."""
        known = self._claims.pop(claim.id, None)
        if known is None:
            raise LudusError(f"claim {claim.id} is not open: it was committed or abandoned, or the buffer went back")
        places = self._window.find(known.rows)
        self._window["pending"][places] -= 1
        return places

    def _take_new_rows_of_log(self, *, live: NDArray[np.int64] | None = None, unknown_from: int = 0) -> None:
        """Admit rows of the log from `_known_before` on: those that are `live`, and all from `unknown_from` on."""
        for first_seq, table in self._log.scan():
            if first_seq + table.num_rows <= self._known_before:
                continue
            facts = facts_of_table(table, first_seq)
            wanted = facts.seq >= max(self._known_before, unknown_from)
            if live is not None:
                wanted |= np.isin(facts.seq, live)
            self._admit(facts.where(wanted), new_from=unknown_from, evict=live is None)
        self._known_before = self._log.next_seq

    def _admit(self, facts: RowFacts, *, new_from: int = 0, evict: bool = True) -> None:
        is_surprise = self._config.priority == "surprise"
        self._window.append(
            seq=facts.seq,
            task=facts.task,
            attempt=facts.attempt,
            seat=facts.seat,
            version=facts.version,
            group=facts.group,
            priority=np.clip(facts.surprise, LEAST_PRIORITY, MOST_PRIORITY) if is_surprise else 1.0,
        )
        self._counters["inserted"] += int((facts.seq >= new_from).sum())
        if evict:
            self._evict()

    def _evict(self) -> None:
        excess = len(self._window) - self.limits.capacity
        if excess > 0:
            used = int((self._window["usage"][:excess] + self._window["pending"][:excess] > 0).sum())
            self._counters["evicted_used"] += used
            self._counters["evicted_unused"] += excess - used
            self._window.drop_oldest(excess)

    def _stock(self, unpublished: int = 0) -> Stock:
        return Stock(
            size=len(self._window),
            eligible=int(self._window.eligible(self._batches + len(self._claims)).sum()),
            slots=int(self._window.uses_left().sum()),
            inserted=self._counters["inserted"],
            sampled=self._counters["committed"] + sum(len(claim) for claim in self._claims.values()),
            claims=len(self._claims),
            unpublished=unpublished,
        )
