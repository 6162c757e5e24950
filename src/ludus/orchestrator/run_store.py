"""Everything of a run on disk that outlives an update: checkpoints, policy versions, recorded episodes, the catalog.

Invariant: what any checkpoint on disk may need after a resume (policy versions, episodes) is never removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from ludus.config import RunConfig
from ludus.errors import CorruptRecord
from ludus.league import Pool
from ludus.orchestrator.progress import Progress
from ludus.policies import AnyShape, PolicyStore
from ludus.records import PolicyRef
from ludus.sources.batches_ahead import policies_named
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog

log = logging.getLogger(__name__)

VERSIONS_KEPT = 16
"""Newest versions that stay on disk beside those in the pool."""


class RunStore:
    """Opened once for each start, by the process that holds the run lock."""

    def __init__(self, config: RunConfig, run: RunDirectory) -> None:
        self.catalog = Catalog(run.catalog)
        self.checkpoints = CheckpointStore(run.checkpoints, config.checkpoint.keep)
        self.policies = PolicyStore(run.policies)
        self.episodes = SegmentLog(run.path, "episodes", self.catalog)
        self.keep_bytes = config.record.keep_mb * 1_000_000 // 2
        """Disk budget of each log beyond what a resume needs."""
        self.retained: dict[int, dict[str, Any]] = {}
        """States of the checkpoints on disk, by update."""

    def retain_all(self) -> None:
        """Remember the state of every checkpoint that a resume may go back to."""
        for update in self.checkpoints.list():
            try:
                self._retain(self.checkpoints.load(update))
            except CorruptRecord as error:
                log.warning("checkpoint %d is damaged (%s); it could not be gone back to", update, error)

    def index(self, saved: Checkpoint, progress: Progress, pool: Pool) -> None:
        """Bring the catalog, which people and programs query, up to a checkpoint."""
        with self.catalog.transaction(durable=False):
            self.catalog.add_checkpoint(saved.update, saved.sha256)
            self.catalog.set_cursor("progress", progress.state())
            pool.write(self.catalog)
        self._retain(saved)

    def _retain(self, saved: Checkpoint) -> None:
        kept = self.checkpoints.list()
        self.retained = {update: state for update, state in self.retained.items() if update in kept}
        self.retained[saved.update] = saved.state

    def trim_episodes(self) -> int:
        """Drop recorded episodes beyond the disk budget, oldest first, but none that a resume would look for."""
        needed_from = min((state["episodes_before"] for state in self.retained.values()), default=0)
        excess, point = self.episodes.size_bytes() - self.keep_bytes, 0
        for segment in self.episodes.segments():
            if excess <= 0 or segment.end_seq > needed_from:
                break
            excess -= segment.size_bytes
            point = segment.end_seq
        return self.episodes.trim(point) if point else 0

    def publish(self, ref: PolicyRef, weights: Mapping[str, NDArray[Any]], shape: AnyShape, *, step: int) -> str:
        """Publish a version; returns the hash of its weights, or nothing if it was published before."""
        if self.policies.has(ref):
            return ""
        digest = self.policies.publish(ref, weights, shape, step=step)
        with self.catalog.transaction(durable=False):
            self.catalog.add_policy(ref, weights_hash=digest)
        return digest

    def prune(self, learner: PolicyRef, in_use: Iterable[PolicyRef]) -> None:
        """Remove the learner's versions that nobody may play with: now, or after going back to any checkpoint."""
        needed = {learner, *in_use}
        for state in self.retained.values():
            needed |= {PolicyRef.parse(row["ref"]) for row in state["league"]["members"] if row["active"]}
            job = state["evaluation"]["job"] or {"learner": str(learner), "opponents": []}
            needed |= {PolicyRef.parse(text) for text in (job["learner"], *job["opponents"])}
            needed |= policies_named(state.get("issued", ()))
        self.policies.prune(learner.name, needed | set(self.policies.versions(learner.name)[-VERSIONS_KEPT:]))

    def close(self) -> None:
        """Close the catalog."""
        self.catalog.close()
