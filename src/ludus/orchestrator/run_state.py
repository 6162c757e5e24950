"""The parts of a run that every checkpoint holds, whatever its source and learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ludus.league import Pool
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.run_store import RunStore
from ludus.storage.checkpoints import Checkpoint


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

    def __init__(self, store: RunStore, progress: Progress, pool: Pool, **others: Stateful) -> None:
        self._store = store
        self._progress = progress
        self.pool = pool
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

    def index(self, saved: Checkpoint) -> None:
        """Bring the catalog up to a checkpoint."""
        self._store.index(saved, self._progress, self.pool)
