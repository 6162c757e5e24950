"""Mode evaluate: the versions of another run are measured one after the other; there are explorers and no trainer.

The source gives one version for each update, and the learner measures it. Invariant: a version counts as measured once
the checkpoint after it is on disk, and is then not measured again. It is measured with this run's own copy, so the
other run may train on, and remove versions, meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.errors import ConfigError, StorageError
from ludus.league import Pool
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.evaluation import Evaluator
from ludus.orchestrator.policy_start import Start
from ludus.orchestrator.progress import Learner, Progress, UpdateReport
from ludus.orchestrator.run_store import RunStore
from ludus.policies import Policy, PolicyStore
from ludus.records import PolicyRef, PolicyVersion
from ludus.runs.driver import Controls
from ludus.sources.protocol import Batch, BatchSource
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.jsonl import read_jsonl

log = logging.getLogger(__name__)


class VersionSource(BatchSource):
    """The versions of another run that are to be measured, oldest first."""

    def __init__(self, context: RunContext) -> None:
        if context.start is None:
            raise ConfigError("policy.start: mode evaluate measures another run; write its directory, such as runs/x")
        self._context = context
        self._theirs: Start[Any] = context.start
        self._store = PolicyStore(context.start.run.policies)
        self._measured: list[int] = []
        self._left: list[PolicyRef] | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether every version has been measured."""
        return not self._versions

    def next(self) -> Batch | None:
        """The next version that can be read; one that cannot, or is gone by now, is passed over and told of."""
        while self._versions:
            ref = self._versions.pop(0)
            try:
                return Batch(claims={"version": self._store.load(ref)})
            except StorageError as error:
                log.warning("%s is not measured: %s", ref, error)
                self._context.telemetry.event("version_skipped", policy=str(ref), reason=str(error))
        if not self._measured:
            raise StorageError(f"no version of {self._theirs.run.path} can be read; ludus -v says why")
        return None

    def commit(self, batch: Batch) -> None:
        """It has been measured."""
        self._measured.append(batch.claims["version"].ref.version)

    def state(self) -> dict[str, Any]:
        """What has been measured."""
        return {"measured": self._measured}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self._measured = list(map(int, state["measured"]))

    @property
    def _versions(self) -> list[PolicyRef]:
        """What the config asks for of what was on disk at the start, oldest first, and has not been measured."""
        if self._left is None:
            theirs, config = self._theirs, self._context.config
            one = (config.policy.start or "").partition("@")[2]
            is_one = bool(one) or config.evaluate.versions == "latest"
            wanted = [theirs.policy] if is_one else self._store.versions(theirs.policy.name)
            self._left = [ref for ref in wanted if ref.version not in self._measured]
        return self._left


@dataclass(eq=False)
class Measurer(Learner):
    """Learns nothing: a step is one more version measured."""

    is_training = False

    context: RunContext
    store: RunStore
    pool: Pool
    evaluator: Evaluator
    progress: Progress
    controls: Controls

    def __post_init__(self) -> None:
        self.shape = self.context.shape
        events = read_jsonl(self.context.run.events, mention="measured")
        self._told = {event["policy"] for event in events if event.get("event") == "measured"}

    def begin(self, saved: Checkpoint | None) -> None:
        """There is nothing to load."""

    def step(self, batch: Batch | None) -> UpdateReport | None:
        """Measure a version; returns nothing when the run was stopped before all its games were played."""
        if batch is None:
            return None
        self.controls.enter("evaluating")
        policy: Policy[Any] = batch.claims["version"]
        ref = PolicyRef(name=self.context.policy, version=PolicyVersion(policy.ref.version))
        self.progress.version, self.progress.steps = ref.version, policy.step
        self.store.publish(ref, policy.weights, self.shape, step=policy.step)
        self.pool.set_learner(ref)
        self.pool.add_snapshot(ref, policy.step)
        self.pool.retire()
        self.evaluator.issue(ref, policy.step, is_final=True)
        self.evaluator.submit()
        scores = self.evaluator.settle(lambda: self.controls.is_stopping)
        if self.evaluator.is_open:
            return None
        if str(ref) not in self._told:
            self.context.telemetry.event("measured", policy=str(ref), step=policy.step, scores=scores)
        return UpdateReport(batch=batch, steps=0, episodes=0, is_learnt=False)

    def save(self, staging: Path) -> dict[str, Any]:
        """There are no tensors."""
        return {}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """Nothing is trained."""
        return {}
