"""Versions that are damaged or gone while a run is alive: published again from a checkpoint, or left out of the league.

Invariant: a version comes back with the weights that a checkpoint holds for it, or not at all. What was damaged is in
the run's quarantine.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ludus.errors import StorageError
from ludus.league import Pool
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.run_store import RunStore
from ludus.records import PolicyRef

log = logging.getLogger(__name__)

MOST_REPAIRS = 3
"""Of one version, in one start of the run: a disk that damages it again and again is nothing to play from."""


@dataclass(slots=True, eq=False)
class PolicyRepair:
    """Called when somebody could not load a version."""

    context: RunContext
    store: RunStore
    progress: Progress
    pool: Pool
    _repairs: Counter[PolicyRef] = field(default_factory=Counter)
    _given_up: set[PolicyRef] = field(default_factory=set)

    def repair(self, ref: PolicyRef) -> bool:
        """Whether the version can be used now. One that cannot is no opponent any more.

        Raises:
            StorageError: it is the newest version, and no checkpoint holds it.
        """
        store = self.store.policies
        is_fixed_player = ref.name != self.context.policy and not store.has_policy(ref.name)
        if is_fixed_player or not (problem := store.problem(ref)):
            return True
        if ref in self._given_up:
            return False
        saved = self._saved(ref) if self._repairs[ref] < MOST_REPAIRS else None
        self.store.quarantine(ref, problem)
        if saved is None:
            self._give_up(ref, problem)
            return False
        update, step, weights = saved
        self._repairs[ref] += 1
        self.store.publish(ref, weights, self.context.shape, step=step)
        self._tell(ref, problem, f"published again from checkpoint {update}")
        return True

    def _saved(self, ref: PolicyRef) -> tuple[int, int, Mapping[str, NDArray[Any]]] | None:
        """A checkpoint's update, step and weights, if one was taken when this version was the newest."""
        if ref.name != self.context.policy:
            return None
        for update, state in sorted(self.store.retained.items(), reverse=True):
            progress = state["progress"]
            if progress["version"] == ref.version and not progress.get("unpublished"):
                try:
                    return update, progress["steps"], self.store.checkpoints.load(update).tensors("weights")
                except StorageError as error:
                    log.warning("checkpoint %d cannot give %s back: %s", update, ref, error)
        return None

    def _give_up(self, ref: PolicyRef, problem: str) -> None:
        if ref.name == self.context.policy and ref.version == self.progress.version:
            raise StorageError(
                f"{ref} cannot be used ({problem}), and no checkpoint holds it any more. The same command resumes the "
                "run: the next version follows from the newest checkpoint"
            )
        self._given_up.add(ref)
        self._tell(ref, problem, "no checkpoint holds it any more; it leaves the league's pool")
        for member in self.pool.snapshots:
            if member.ref == ref:
                member.active = False
                self.pool.revision += 1

    def _tell(self, ref: PolicyRef, problem: str, done: str) -> None:
        log.warning("%s cannot be used (%s); %s", ref, problem, done)
        self.context.telemetry.event("policy_damaged", policy=str(ref), problem=problem, done=done)
