"""The batch as the trainer gets it: rollouts, transformed, with expert rows, pairs and imports beside them.

This is the one place where rewards are transformed, for both schedules: what the buffer and the log hold is verified
experience as it was played. Transforms see the batch that is trained on, in its order. What they remember is part of
the checkpoint as of the last committed batch, so a batch that was under way when the run was killed counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ludus.experience import Pipeline, with_baselines
from ludus.records import Experiences, join
from ludus.sources.offline import OfflineRows
from ludus.sources.protocol import Batch, BatchSource


class MixedSource(BatchSource):
    """A source of rollouts and the offline sources beside it."""

    def __init__(
        self,
        rollouts: BatchSource,
        offline: Sequence[OfflineRows],
        pipeline: Pipeline,
        *,
        take_inbox: Callable[[], None] = lambda: None,
        raw_from: Callable[[], int] = lambda: 0,
    ) -> None:
        """`take_inbox` takes what people left for the run, before each update. `raw_from` is asked when a checkpoint
        does not say from which row on the log holds untransformed rows."""
        self.rollouts = rollouts
        self._offline = tuple(offline)
        self._pipeline = pipeline
        self._committed = pipeline.state()
        self._raw_from = 0
        self._find_raw_from = raw_from
        self._take_inbox = take_inbox
        self._is_inbox_due = True

    @property
    def is_exhausted(self) -> bool:
        """The rollouts decide: offline rows come round for ever."""
        return self.rollouts.is_exhausted

    def start(self) -> None:
        """Start the rollouts."""
        self.rollouts.start()

    def next(self) -> Batch | None:
        """The next rollouts, transformed, and the rows beside them."""
        if self._is_inbox_due:
            self._take_inbox()
            self._is_inbox_due = False
        batch = self.rollouts.next()
        if batch is None or batch.explored is not None or batch.is_pulled:
            return batch
        beside = [source.next() for source in self._offline]
        claims = {**batch.claims, **{name: claim for part in beside for name, claim in part.claims.items()}}
        rows = _mixed(self._transformed(batch), [part.experiences for part in beside])
        return replace(batch, experiences=with_baselines(rows), claims={**claims, "pipeline": self._pipeline.state()})

    def commit(self, batch: Batch) -> None:
        """The batch has been trained on."""
        self._is_inbox_due = True
        self.rollouts.commit(batch)
        for source in self._offline if "pipeline" in batch.claims else ():
            source.commit(batch)
        self._committed = batch.claims.get("pipeline", self._committed)

    def state(self) -> dict[str, Any]:
        """Of all parts."""
        return {
            **self.rollouts.state(),
            "pipeline": self._committed,
            "raw_from": self._raw_from,
            "side": {source.name: source.state() for source in self._offline},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint. An offline source that it does not know begins at its beginning."""
        self.rollouts.load_state(state)
        if "pipeline" in state:
            self._pipeline.load_state(state["pipeline"])
        self._committed = self._pipeline.state()
        self._raw_from = int(state["raw_from"]) if "raw_from" in state else self._find_raw_from()
        for source in self._offline:
            if source.name in state.get("side", {}):
                source.load_state(state["side"][source.name])

    def on_published(self) -> None:
        """Pass it on."""
        self.rollouts.on_published()

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Pass it on."""
        return self.rollouts.drain(is_stopping)

    def metrics(self) -> dict[str, float]:
        """Of all parts."""
        return {
            **self.rollouts.metrics(),
            **{name: value for source in self._offline for name, value in source.metrics().items()},
        }

    def _transformed(self, batch: Batch) -> Experiences:
        rows, claim = batch.experiences, batch.claims.get("rows")
        if not len(rows):
            return rows
        fresh = np.flatnonzero(claim.rows >= self._raw_from) if claim is not None else np.arange(len(rows))
        if len(fresh) == len(rows):
            return self._pipeline.on_sample(self._pipeline.on_step(self._pipeline.on_final(rows)))
        # The log of a run from before transforms moved here: its old rows were transformed when they arrived.
        old = np.setdiff1d(np.arange(len(rows)), fresh)
        shaped = self._pipeline.on_step(self._pipeline.on_final(rows.take(fresh)))
        joined = join([shaped, rows.take(old)])
        return self._pipeline.on_sample(joined.take(np.argsort(np.concatenate([fresh, old]))))


def _mixed(rollouts: Experiences, beside: Sequence[Experiences]) -> Experiences:
    """The rollouts first. Without others they stay as they are."""
    others = join(list(beside))
    if not len(others):
        return rollouts
    if len(rollouts) and "source" not in rollouts.sequences:
        rollouts = rollouts.replace(sequences={"source": np.full(len(rollouts), "on_policy", object)})
    return join([rollouts, others])
