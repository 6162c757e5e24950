"""Everything of a run on disk that outlives an update: checkpoints, policy versions, recorded episodes, the catalog.

Invariant: what any checkpoint on disk may need after a resume (policy versions, episodes) is never removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from ludus.config import RunConfig
from ludus.errors import CorruptRecord, IncompleteCheckpoint
from ludus.league import Pool
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.progress import Learner, Progress
from ludus.policies import AnyShape, PolicyStore
from ludus.records import PolicyRef, PolicyVersion
from ludus.sources.batches_ahead import policies_named
from ludus.storage.atomic import move_to_quarantine
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog
from ludus.storage.traces import TraceLog

if TYPE_CHECKING:
    from ludus.orchestrator.evaluation import Evaluator
    from ludus.orchestrator.explorers import Explorers

log = logging.getLogger(__name__)

VERSIONS_KEPT = 16
"""Newest versions that stay on disk beside those in the pool."""


class RunStore:
    """Opened once for each start, by the process that holds the run lock."""

    def __init__(self, config: RunConfig, run: RunDirectory) -> None:
        self._config, self._run = config, run
        self.catalog = Catalog(run.catalog)
        self.checkpoints = CheckpointStore(run.checkpoints, config.checkpoint.keep)
        self.policies = PolicyStore(run.policies)
        self.episodes = SegmentLog(run.path, "episodes", self.catalog)
        self.keep_bytes = config.record.keep_mb * 1_000_000 // 2
        """Disk budget of each log beyond what a resume needs."""
        self.traces = TraceLog(run.traces, keep_bytes=config.record.keep_mb * 1_000_000 // 8)
        self.retained: dict[int, dict[str, Any]] = {}
        """States of the checkpoints on disk, by update."""

    def resume_point(self, *, strict: bool) -> Checkpoint | None:
        """The checkpoint to go on from; None only for a run that has not begun.

        Raises:
            IncompleteCheckpoint: the run has begun, and there is no checkpoint to go on from; or (`strict`) the newest
                is damaged or gone.
        """
        listed = self.checkpoints.list()
        saved = self.checkpoints.latest(strict=strict)
        newest = self.catalog.query('SELECT max("update") FROM checkpoints')[0][0]
        if saved is None and (trace := self._trace(newest)):
            raise IncompleteCheckpoint(
                f"{self.checkpoints.directory} has no checkpoint although {trace}; not starting over. Put the folder "
                f"back, or begin anew with --from-scratch (the run moves to {self._run.path / 'earlier'})"
            )
        if saved is not None and newest is not None and newest > saved.update:
            if newest not in listed:
                gone = f"checkpoint {newest} is not in {self.checkpoints.directory} any more"
                if strict:
                    raise IncompleteCheckpoint(f"{gone}; strict resume")
                log.warning("%s; using checkpoint %d", gone, saved.update)
            with self.catalog.transaction(durable=False):
                self.catalog.execute('DELETE FROM checkpoints WHERE "update" > ?', (saved.update,))
        self._register_policies()
        return saved

    def _register_policies(self) -> None:
        """Tell the catalog of versions on disk that it does not know: it was lost, or could not be written."""
        known = {ref for ref, _ in self.catalog.policies()}
        names = [name for name in self.policies.names() if not (self._run.policies / name).is_symlink()]
        lacking = [ref for name in names for ref in self.policies.versions(name) if ref not in known]
        if lacking:
            with self.catalog.transaction(durable=False):
                for ref in lacking:
                    with suppress(CorruptRecord, KeyError):
                        self.catalog.add_policy(ref, weights_hash=self.policies.weights_hash(ref))

    def _trace(self, newest: int | None) -> str:
        """What tells that the run has begun, in words; nothing if nothing does."""
        if newest is not None:
            return f"its catalog knows checkpoint {newest}"
        if self._config.mode == "evaluate":
            return ""  # measures before its first checkpoint; others save before anything is published or played
        if versions := self.policies.versions(self._config.policy.name):
            return f"{versions[-1]} is published"
        return f"{len(self.episodes):,} episodes are recorded" if len(self.episodes) else ""

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

    def publish(
        self,
        ref: PolicyRef,
        weights: Mapping[str, NDArray[Any]],
        shape: AnyShape,
        *,
        step: int,
        beside: Mapping[str, bytes] = {},
    ) -> str:
        """Publish a version, with files `beside` its weights.

        Returns the hash of its weights, or nothing if it was published before.

        What is on disk under this version is checked first: if it is damaged or another's, it goes to the quarantine.
        """
        if self.policies.path(ref).exists():
            if not (problem := self.policies.problem(ref, weights)):
                return ""
            self.quarantine(ref, problem)
            log.warning("%s was damaged; it is published again from the checkpoint", ref)
        digest = self.policies.publish(ref, weights, shape, step=step, beside=beside)
        with self.catalog.transaction(durable=False):
            self.catalog.add_policy(ref, weights_hash=digest)
        return digest

    def quarantine(self, ref: PolicyRef, problem: str) -> None:
        """Move a version that cannot be used to the quarantine; another run's, which is linked here, stays."""
        if self.policies.path(ref).exists() and not (self._run.policies / ref.name).is_symlink():
            move_to_quarantine(self.policies.path(ref), self._run.quarantine, problem)

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
        """Close the catalog and the traces."""
        self.traces.close()
        self.catalog.close()


class Stateful(Protocol):
    """A part with a state."""

    def state(self) -> Any:
        """JSON for the checkpoint."""
        ...

    def load_state(self, state: Any) -> None:
        """Go back to a checkpoint."""
        ...


class RunState:
    """Saves and restores parts under their keys in the manifest."""

    def __init__(
        self,
        store: RunStore,
        progress: Progress,
        pool: Pool,
        repair: Callable[[PolicyRef], bool],
        **others: Stateful,
    ) -> None:
        """`repair` makes a version usable or takes it out of the pool."""
        self._store = store
        self._progress = progress
        self.pool = pool
        self._repair = repair
        self._parts: dict[str, Stateful] = {"progress": progress, "league": pool, **others}

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        states = {key: part.state() for key, part in self._parts.items()}
        return {**states, "episodes_before": self._store.episodes.next_seq}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint. A part that it does not know begins at its beginning."""
        self._store.retain_all()
        for key, part in self._parts.items():
            if state.get(key) is not None:
                part.load_state(state[key])
        self._repair_opponents()

    def _repair_opponents(self) -> None:
        """Choose no opponent whose weights are gone or damaged. The newest version is `Publisher`'s to mend."""
        for member in self.pool.snapshots:
            if member.ref.version != self._progress.version:
                self._repair(member.ref)

    def index(self, saved: Checkpoint) -> None:
        """Bring the catalog up to a checkpoint."""
        self._store.index(saved, self._progress, self.pool)


@dataclass(slots=True, eq=False)
class Publisher:
    """The policy's versions on disk and in the league."""

    context: RunContext
    store: RunStore
    progress: Progress
    pool: Pool
    evaluator: Evaluator
    explorers: Explorers

    @property
    def newest(self) -> PolicyRef:
        """The newest version of the policy that learns."""
        return PolicyRef(name=self.context.policy, version=PolicyVersion(self.progress.version))

    def make_version(self) -> None:
        """What has been learnt is a version from now on.

        Synchronous runs repeat themselves exactly, numbers included; others never use a number twice.
        """
        version = self.progress.version
        config = self.context.config
        if config.schedule == "async" or config.buffer.feeds:
            published = self.store.policies.versions(self.context.policy)
            version = max([version, *(ref.version for ref in published[-1:])])
        self.progress.publish(version + 1)
        self.pool.set_learner(self.newest)

    def take_snapshot(self) -> None:
        """The newest version joins the league's pool."""
        self.pool.add_snapshot(self.newest, self.progress.steps)
        self.pool.retire()

    def publish(self, learner: Learner) -> None:
        """Let everybody see the version that the checkpoint holds; doing it again changes nothing.

        After a resume between two versions the checkpoint is ahead of the newest: that stays as it is, and a damaged
        one is followed by a version of what the checkpoint holds.
        """
        if self.progress.unpublished:
            if not (problem := self.store.policies.problem(self.newest)):
                return
            self.store.quarantine(self.newest, problem)
            log.warning("%s cannot be used (%s); the next version follows from the checkpoint", self.newest, problem)
            self.make_version()
        telemetry, step, policy = self.context.telemetry, self.progress.steps, self.newest
        digest = self.store.publish(policy, learner.weights(), learner.shape, step=step, beside=learner.beside)
        if digest:
            telemetry.meters.add("policies", 1)
            telemetry.event("published", policy=str(policy), weights_hash=digest, step=step)
            snapshots = {member.ref for member in self.pool.snapshots}
            playing = {*self.evaluator.evaluation.participants(), *self.explorers.versions()}
            self.store.prune(policy, snapshots | playing)
