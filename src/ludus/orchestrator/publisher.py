"""Publishes versions of the policy that learns, and removes versions that nobody needs any more."""

from __future__ import annotations

from ludus.league import Pool
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.evaluator import Evaluator
from ludus.orchestrator.explorers import Explorers
from ludus.orchestrator.learner import Learner
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.run_store import RunStore
from ludus.records import PolicyRef, PolicyVersion


class Publisher:
    """The policy's versions on disk and in the league."""

    def __init__(
        self,
        context: RunContext,
        store: RunStore,
        progress: Progress,
        pool: Pool,
        evaluator: Evaluator,
        explorers: Explorers,
    ) -> None:
        config = context.config
        self._context = context
        self._store = store
        self._progress = progress
        self._pool = pool
        self._evaluator = evaluator
        self._explorers = explorers
        self._is_exact = config.schedule != "async" and not config.buffer.feeds

    @property
    def newest(self) -> PolicyRef:
        """The newest version of the policy that learns."""
        return PolicyRef(name=self._context.policy, version=PolicyVersion(self._progress.version))

    def make_version(self) -> None:
        """What has been learnt is a version from now on.

        Synchronous runs repeat themselves exactly, numbers included; others never use a number twice.
        """
        version = self._progress.version
        if not self._is_exact:
            published = self._store.policies.versions(self._context.policy)
            version = max([version, *(ref.version for ref in published[-1:])])
        self._progress.publish(version + 1)
        self._pool.set_learner(self.newest)

    def take_snapshot(self) -> None:
        """The newest version joins the league's pool."""
        self._pool.add_snapshot(self.newest, self._progress.steps)
        self._pool.retire()

    def publish(self, learner: Learner) -> None:
        """Let everybody see the version that the checkpoint holds; doing it again changes nothing."""
        telemetry, step, policy = self._context.telemetry, self._progress.steps, self.newest
        digest = self._store.publish(policy, learner.weights(), learner.shape, step=step)
        if digest:
            telemetry.meters.add("policies", 1)
            telemetry.event("published", policy=str(policy), weights_hash=digest, step=step)
            snapshots = {member.ref for member in self._pool.snapshots}
            playing = {*self._evaluator.evaluation.participants(), *self._explorers.versions()}
            self._store.prune(policy, snapshots | playing)
