"""The buffer against plain lists, through crashes: exactly once, never more than `reuse`, never stuck (F3, F31).

The model is what a person would write down: rows in the order of acknowledgement with their uses, and a copy of that at
each checkpoint. A crash goes back to a copy; rows acknowledged since then are there, unused.
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ludus.buffer import SAMPLERS, Buffer, Claim, Stock, may_claim
from ludus.config import BufferConfig
from ludus.storage.catalog import Catalog
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences

Key = tuple[int, int]
"""Task and seat."""


@dataclass
class History:
    """What a checkpoint must bring back."""

    live: dict[Key, int] = field(default_factory=dict)
    """Uses of each row in the window, oldest first."""
    trained: dict[Key, int] = field(default_factory=dict)
    ready: dict[Key, int] = field(default_factory=dict)
    """The first batch that may have a row again."""
    batches: int = 0
    acknowledged: int = 0
    """How many rows of the log this history knows."""
    inserted: int = 0
    committed: int = 0


class BufferMachine(RuleBasedStateMachine):
    """Rules are what the loop does, and what happens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="ludus-buffer-"))
        self.catalog: Catalog | None = None
        self.log: list[tuple[Key, int]] = []  # every acknowledged row with its version, in order
        self.now = History()
        self.claims: list[tuple[Claim, list[Key]]] = []
        self.checkpoints: list[tuple[dict[str, Any], History]] = []
        self.version = 0
        self.next_task = 0

    @initialize(
        batch=st.integers(1, 4),
        more=st.integers(0, 8),
        reuse=st.integers(1, 3),
        sampler=st.sampled_from(sorted(SAMPLERS)),
        ratio=st.none() | st.floats(0.3, 4.0),
        min_size=st.none() | st.integers(1, 6),
        staleness=st.none() | st.integers(0, 3),
        cooldown=st.integers(0, 2),
    )
    def configure(
        self,
        batch: int,
        more: int,
        reuse: int,
        sampler: str,
        ratio: float | None,
        min_size: int | None,
        staleness: int | None,
        cooldown: int,
    ) -> None:
        self.batch = batch
        self.staleness = staleness
        self.config = BufferConfig.model_validate(
            {
                "capacity": max(batch, min_size or 0) + more,
                "reuse": reuse,
                "sampler": sampler,
                "samples_per_insert": ratio,
                "min_size": min_size,
                "cooldown": cooldown,
            }
        )
        self.open()

    def open(self) -> None:
        if self.catalog is not None:
            self.catalog.close()
        self.catalog = Catalog(self.directory / "catalog.sqlite")
        self.buffer = Buffer(
            SegmentLog(self.directory, "experiences", self.catalog),
            self.config,
            batch_rows=self.batch,
            concurrency=1000,
            max_staleness=self.staleness,
        )

    def acknowledge(self, keys: list[Key]) -> None:
        """Rows that the model takes into its window, evicting the oldest."""
        for key in keys:
            self.now.live[key] = 0
        self.now.inserted += len(keys)
        self.now.acknowledged = len(self.log)
        while len(self.now.live) > self.buffer.limits.capacity:
            del self.now.live[next(iter(self.now.live))]

    @rule(seats=st.lists(st.integers(1, 2), min_size=1, max_size=8), behind=st.integers(0, 2))
    def insert(self, seats: list[int], behind: int) -> None:
        keys = [(self.next_task + place, seat) for place, count in enumerate(seats) for seat in range(count)]
        self.next_task += len(seats)
        version = max(self.version - behind, 0)
        rows = sample_experiences(
            [1 + task % 3 for task, _ in keys],
            tasks=[task for task, _ in keys],
            seats=[seat for _, seat in keys],
            version=version,
        )
        assert self.buffer.insert(rows) == len(keys)
        self.log += [(key, version) for key in keys]
        self.acknowledge(keys)

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def insert_again(self, data: st.DataObject) -> None:
        key, version = data.draw(st.sampled_from(self.log))
        rows = sample_experiences((1,), tasks=(key[0],), seats=(key[1],), version=version)
        assert self.buffer.insert(rows) == 0

    @rule(seed=st.integers(0, 1000))
    def claim(self, seed: int) -> None:
        self.take_batch(seed)

    @rule(seed=st.integers(0, 1000), batches=st.integers(1, 3))
    def train(self, seed: int, batches: int) -> None:
        """What a trainer does most of the time: explorers bring what is missing, then claim and commit."""
        for number in range(batches):
            for _ in range(5):
                if self.take_batch(seed + number):
                    self.commit_batch(len(self.claims) - 1)
                    break
                self.insert([1] * self.batch, behind=0)

    def take_batch(self, seed: int) -> bool:
        bound = self.version - self.staleness if self.staleness is not None else -1
        versions = dict(self.log)
        for key in [key for key in self.now.live if versions[key] < bound]:
            del self.now.live[key]
        eligible = self.eligible()
        claim = self.buffer.claim(self.version, seed=seed)
        assert (claim is not None) == may_claim(self.buffer.limits, self.stock())
        if claim is None:
            return False
        keys = [self.log[number][0] for number in claim.rows.tolist()]
        assert len(set(keys)) == len(keys) == self.batch
        assert set(keys) <= set(eligible)
        assert all(versions[key] >= bound for key in keys)
        if self.config.sampler == "fifo":
            assert keys == eligible[: self.batch]
        found = self.buffer.read(claim).sequences
        assert list(zip(found["task"].tolist(), found["seat"].tolist(), strict=True)) == keys
        self.claims.append((claim, keys))
        return True

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.commit_batch(data.draw(st.integers(0, len(self.claims) - 1)))

    def commit_batch(self, place: int) -> None:
        claim, keys = self.claims.pop(place)
        self.buffer.commit(claim)
        self.version += 1
        self.now.committed += len(keys)
        self.now.batches += 1
        for key in keys:
            self.now.ready[key] = self.now.batches + self.config.cooldown
            self.now.trained[key] = self.now.trained.get(key, 0) + 1
            if key in self.now.live:
                self.now.live[key] += 1
                if self.now.live[key] >= self.config.reuse:
                    del self.now.live[key]

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        claim, _ = self.claims.pop(data.draw(st.integers(0, len(self.claims) - 1)))
        self.buffer.abandon(claim)

    @rule()
    def checkpoint(self) -> None:
        state = json.loads(json.dumps(self.buffer.state(), allow_nan=False))
        self.checkpoints = [*self.checkpoints, (state, copy.deepcopy(self.now))][-2:]

    @rule()
    def trim(self) -> None:
        self.buffer.trim([state for state, _ in self.checkpoints] or [{"live": [], "next_seq": 0}])

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """SIGKILL, then a resume from the newest checkpoint, or from the one before it if the newest is damaged.

        Before the first checkpoint every acknowledged row is there, unused.
        """
        if self.checkpoints:
            self.checkpoints = self.checkpoints[: data.draw(st.integers(1, len(self.checkpoints)))]
        self.claims = []
        self.open()
        self.now = History()
        if self.checkpoints:
            state, known = self.checkpoints[-1]
            self.buffer.load_state(state)
            self.now = copy.deepcopy(known)
        self.acknowledge([key for key, _ in self.log[self.now.acknowledged :]])

    @invariant()
    def window_is_the_model(self) -> None:
        if not self.catalog:
            return
        state = self.buffer.state()
        found = {
            self.log[first + place][0]: usage for first, count, usage, _ in state["live"] for place in range(count)
        }
        assert found == self.now.live
        assert list(found) == list(self.now.live)
        assert state["counters"]["inserted"] == self.now.inserted
        assert state["counters"]["committed"] == self.now.committed

    @invariant()
    def no_row_is_trained_more_often_than_allowed(self) -> None:
        if self.catalog:
            assert all(uses <= self.config.reuse for uses in self.now.trained.values())

    @invariant()
    def some_side_may_proceed(self) -> None:
        if self.catalog and not self.claims and not may_claim(self.buffer.limits, self.stock()):
            assert self.buffer.may_explore(0) >= 1

    def eligible(self) -> list[Key]:
        """Rows that the next batch may have: with uses left, and rested since the last."""
        open_uses, number = self.open_uses(), self.now.batches + len(self.claims)
        unused = [k for k, uses in self.now.live.items() if uses + open_uses.get(k, 0) < self.config.reuse]
        if not self.config.cooldown:
            return unused
        return [k for k in unused if self.now.ready.get(k, 0) <= number and k not in open_uses]

    def open_uses(self) -> dict[Key, int]:
        uses: dict[Key, int] = {}
        for _, keys in self.claims:
            for key in keys:
                uses[key] = uses.get(key, 0) + 1
        return uses

    def stock(self) -> Stock:
        open_uses = self.open_uses()
        left = [self.config.reuse - uses - open_uses.get(key, 0) for key, uses in self.now.live.items()]
        return Stock(
            size=len(left),
            eligible=len(self.eligible()),
            slots=sum(left),
            inserted=self.now.inserted,
            sampled=self.now.committed + sum(len(keys) for _, keys in self.claims),
            claims=len(self.claims),
        )

    def teardown(self) -> None:
        if self.catalog is not None:
            self.catalog.close()
        shutil.rmtree(self.directory, ignore_errors=True)


TestBufferModel = BufferMachine.TestCase
# Every step writes to the disk: 40 examples in the ordinary run, as many as the profile says in the nightly one.
_EXAMPLES = 40 if settings().max_examples <= 100 else settings().max_examples
TestBufferModel.settings = settings(max_examples=_EXAMPLES, stateful_step_count=25, deadline=None)
