"""Everything that goes into a batch beside the policy's own new experience: all other stores, as one.

    store     rows in a batch                                 source
    expert    `expert_rows`, round in epochs                  expert
    pairs     `pair_count` pairs, round in epochs             pairs
    imports   what people brought back, once each             on_policy

Invariant: claim, train, commit, in this order and for one update after the other. The state of all stores is one part
of the checkpoint; after a crash every store goes on where that checkpoint left it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ludus.buffer.epoch_store import Drawn, EpochStore
from ludus.buffer.import_store import Imported, ImportStore, RowKey
from ludus.records import Experiences, join


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineClaim:
    """Rows of all side stores for one update."""

    experiences: Experiences
    """With the column `source`; empty when no store has any."""
    drawn: tuple[tuple[EpochStore, Drawn], ...] = ()
    imported: Imported | None = None

    def mixed_with(self, on_policy: Experiences) -> Experiences:
        """The batch for the trainer: the on-policy rows first. Without others they stay as they are."""
        if not len(self.experiences):
            return on_policy
        if len(on_policy) and "source" not in on_policy.sequences:
            on_policy = on_policy.replace(sequences={"source": np.full(len(on_policy), "on_policy", object)})
        return join([on_policy, self.experiences])


class OfflineSources:
    """The stores beside the buffer. One thread of the process that holds the run lock."""

    def __init__(
        self,
        *,
        expert: EpochStore | None = None,
        expert_rows: int = 0,
        pairs: EpochStore | None = None,
        pair_count: int = 0,
        imports: ImportStore | None = None,
        import_rows: int = 0,
    ) -> None:
        """`expert_rows` and `pair_count` are in every batch; `import_rows` at most, while there are any."""
        asked = ((expert, expert_rows), (pairs, pair_count))
        self._epochs = tuple((store, items) for store, items in asked if store is not None and items)
        self._imports = imports
        self._import_rows = import_rows

    @property
    def rejected(self) -> set[RowKey]:
        """Rows of the on-policy store that people rejected: give them to `Buffer.discard`."""
        return set() if self._imports is None else self._imports.rejected

    def take_inbox(self) -> int:
        """Take what people left for the run; returns how many rows are new."""
        return 0 if self._imports is None else self._imports.take_inbox()

    def claim(self) -> OfflineClaim:
        """Rows for the next update."""
        drawn = tuple((store, store.claim(items)) for store, items in self._epochs)
        imported = None if self._imports is None else self._imports.claim(self._import_rows)
        parts = [part.experiences for _, part in drawn] + ([imported.experiences] if imported else [])
        return OfflineClaim(experiences=join(parts), drawn=drawn, imported=imported)

    def commit(self, claim: OfflineClaim) -> None:
        """The update has been made. Durable with the next checkpoint, whose manifest holds `state()`."""
        for store, drawn in claim.drawn:
            store.commit(drawn)
        if self._imports is not None and claim.imported is not None:
            self._imports.commit(claim.imported)

    def metrics(self) -> dict[str, float]:
        """How far the stores have been gone through."""
        found = {f"buffer/{store.name}_epochs": store.epochs for store, _ in self._epochs}
        if self._imports is not None and (waiting := self._imports.waiting):
            found["buffer/imports_waiting"] = float(waiting)
        return found

    def state(self) -> dict[str, Any]:
        """JSON for a checkpoint. Open claims do not count."""
        state: dict[str, Any] = {store.name: store.state() for store, _ in self._epochs}
        return state if self._imports is None else {**state, "imports": self._imports.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint. A store that it does not know begins at its beginning."""
        for store, _ in self._epochs:
            if store.name in state:
                store.load_state(state[store.name])
        if self._imports is not None and "imports" in state:
            self._imports.load_state(state["imports"])
