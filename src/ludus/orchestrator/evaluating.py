"""Mode evaluate: the versions of another run are measured one after the other; there are explorers and no trainer.

Invariant: a version counts as measured once the checkpoint after it is on disk, and is then not measured again. What it
was measured with is this run's own copy, so the other run may go on, and remove versions, meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.errors import ConfigError, StorageError
from ludus.orchestrator.dispatcher import Dispatcher
from ludus.orchestrator.endpoint_bill import EndpointBill
from ludus.orchestrator.policy_start import Start
from ludus.orchestrator.progress import UpdateReport
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.rooms import Rooms
from ludus.policies import Policy, PolicyStore
from ludus.records import PolicyRef, PolicyVersion, Task
from ludus.runtime import Stop
from ludus.storage.checkpoints import Checkpoint

log = logging.getLogger(__name__)


class Evaluating:
    """A topology in which an update is: one more version measured."""

    publish_interval: int | None = None

    def __init__(self, rooms: Rooms) -> None:
        if rooms.start is None:
            raise ConfigError("policy.start: mode evaluate measures another run; write its directory, such as runs/x")
        self._rooms = rooms
        self._theirs: Start[Any] = rooms.start
        self._store = PolicyStore(rooms.start.run.policies)
        self._intake = RolloutSink(rooms)
        self._bill = EndpointBill(rooms.config.explore.workers)
        self._measured: list[int] = []
        self._left: list[PolicyRef] = []
        self._explorers: Dispatcher | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether every version has been measured."""
        return not self._left

    def begin(self, saved: Checkpoint | None) -> None:
        """Find the versions that are still to be measured; explorers start with the first of them."""
        if saved is not None:
            self._measured = list(map(int, saved.state["measured"]))
            self._bill.load_state(saved.state["endpoints"])
        self._left = [ref for ref in self._wanted() if ref.version not in self._measured]

    def advance(self) -> UpdateReport:
        """Take the next version that there is and issue its evaluation, for which the caller waits."""
        policy = self._take_next()
        if policy is not None:
            self._measure(policy)
        return UpdateReport(steps=0, episodes=0)

    def tend(self, timeout_s: float) -> None:
        """Take what the explorers bring."""
        for event in self._rooms.supervisor.poll(timeout_s):
            for delivery in self._explorers.absorb(event) if self._explorers is not None else ():
                self._intake.take(delivery)

    def save(self, staging: Path) -> dict[str, Any]:
        """There are no tensors; only which versions are done."""
        return {"measured": self._measured, "endpoints": self._bill.state()}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """Nothing is trained."""
        return {}

    def use_version(self, ref: PolicyRef) -> None:
        """Tasks name their version."""

    def refresh_opponents(self) -> None:
        """Opponents are drawn for each evaluation."""

    def submit_evaluation(self, tasks: Sequence[Task]) -> None:
        """Hand the games or attempts to the explorers."""
        if self._explorers is None:
            explore = self._rooms.config.explore
            slots = -(-explore.games_in_flight // explore.workers)
            self._explorers = Dispatcher(self._rooms, workers=explore.workers, slots=slots, bill=self._bill)
        self._explorers.submit(tasks)

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Nothing is played ahead."""
        return True

    def close(self) -> None:
        """End all explorers."""
        if bill := self._bill.metrics():
            self._rooms.telemetry.event("endpoints", **bill)
        self._rooms.supervisor.stop(Stop() if self._explorers is not None else None, grace_s=1.0)

    def _wanted(self) -> list[PolicyRef]:
        """What the config asks for of what is on disk now, oldest first."""
        theirs, rooms = self._theirs, self._rooms
        one = (rooms.config.policy.start or "").partition("@")[2]
        if one or rooms.config.evaluate.versions == "latest":
            return [theirs.policy]
        return self._store.versions(theirs.policy.name)

    def _take_next(self) -> Policy[Any] | None:
        """The next version that can be read; one that cannot, or is gone by now, is passed over and told of."""
        while self._left:
            ref = self._left.pop(0)
            try:
                return self._store.load(ref)
            except StorageError as error:
                log.warning("%s is not measured: %s", ref, error)
                self._rooms.telemetry.event("version_skipped", policy=str(ref), reason=str(error))
        if not self._measured:
            raise StorageError(f"no version of {self._theirs.run.path} can be read; ludus -v says why")
        return None

    def _measure(self, policy: Policy[Any]) -> None:
        rooms = self._rooms
        rooms.progress.version, rooms.progress.steps = PolicyVersion(policy.ref.version), policy.step
        rooms.publish(policy.weights)
        rooms.pool.set_learner(rooms.learner)
        rooms.pool.add_snapshot(rooms.learner, policy.step)
        rooms.pool.retire()
        rooms.evaluation.issue(rooms.learner, step=policy.step, is_final=True)
        self.submit_evaluation(rooms.evaluation.pending_tasks())
        self._measured.append(policy.ref.version)
