"""The rollouts of a run on their way to the trainer: the durable log, the replay buffer over it, and what was refused.

Invariant: all of it is saved and restored as one; `state` has the same keys whatever the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.buffer import Buffer
from ludus.errors import RolloutError
from ludus.experience import build_filters
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.dispatcher import TASKS_PER_SLOT
from ludus.orchestrator.evaluation import Evaluation
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.run_store import RunStore
from ludus.sources.cut_off import CutOff
from ludus.sources.done_tasks import DoneTasks
from ludus.storage.segments import SegmentLog
from ludus.telemetry import Fill

LOST_ROWS = ("stale", "evicted_unused", "lost")
"""What the buffer calls rows that were never trained on."""
MOST_FRUITLESS_BATCHES = 4
"""Batches of episodes in a row that may all be unusable before the run stops."""


class RowStore:
    """Log, buffer and sink of one run."""

    def __init__(self, context: RunContext, store: RunStore, evaluation: Evaluation, progress: Progress) -> None:
        config = context.config
        mirrors = any(choice.kind == "mirror" for choice in config.league.opponents)
        is_async = config.schedule == "async"
        self._context = context
        self._store = store
        self._progress = progress
        self.batch_episodes = config.train.batch_episodes or 1
        self.seats = max(spec.players for spec in context.specs.values()) if mirrors else 1
        """Learning seats of an episode, at most."""
        self.log = SegmentLog(context.run.path, "experiences", store.catalog)
        self.buffer = Buffer(
            self.log,
            config.buffer,
            batch_rows=self.batch_episodes * self.seats,
            rows_per_episode=self.seats,
            concurrency=config.explore.games_in_flight * TASKS_PER_SLOT,
            max_staleness=config.train.max_staleness if is_async else None,
            interval=config.publish_interval,
        )
        self.done = DoneTasks()
        self.cut_off = CutOff(config)
        self.sink = RolloutSink(
            context,
            store,
            evaluation,
            progress,
            self.buffer,
            filters=build_filters(config.experience),
            is_done=lambda task: task in self.done,
        )
        meters = context.telemetry.meters
        meters.watch("buffer", "window", lambda: Fill(length=len(self.buffer), capacity=self.buffer.limits.capacity))

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {
            "buffer": self.buffer.state(),
            "refused": self.sink.refusals.state(),
            "done_before": self.done.before,
            "done_above": self.done.above,
            "cut_off": self.cut_off.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint."""
        self.buffer.load_state(state["buffer"])
        self.sink.refusals.load_state(state["refused"])
        self.done.reset(int(state["done_before"]), state.get("done_above", ()))
        self.cut_off.load_state(state.get("cut_off", {}))

    def check_usable(self) -> None:
        """Raise if nothing of the latest episodes can be trained on: more of them would not help."""
        if self.sink.counts.fruitless >= MOST_FRUITLESS_BATCHES * self.batch_episodes:
            raise self.nothing_usable(self.sink.counts.fruitless)

    def nothing_usable(self, episodes: int) -> RolloutError:
        """Why the run stops, with the reasons of the latest refusals."""
        self.write_refused()
        what = f"none of the {episodes} episodes of update {self._progress.update + 1} can be trained on"
        return RolloutError(f"{what} {self.sink.why_refused()}; ludus inspect {self._context.run.path} shows more")

    def trim(self) -> None:
        """Give back disk that no checkpoint needs, down to the configured budget."""
        retained, budget = self._store.retained.values(), self._store.keep_bytes
        trimmed = self.buffer.trim([state["buffer"] for state in retained], keep_bytes=budget)
        if trimmed or self._store.trim_episodes():
            settled = min((int(state["done_before"]) for state in retained), default=0)
            self._store.episodes.settle(settled)
            self.log.settle(settled)
            self.sink.trim_refused(budget, settled_before=settled)

    def write_refused(self) -> None:
        """Let people see what was refused and dropped, and why."""
        dropped = {reason: self.buffer.counters[reason] for reason in LOST_ROWS}
        self._context.telemetry.meters.set("buffer", dropped=sum(dropped.values()))
        self.sink.refusals.write(self._store.catalog, also=dropped)

    def metrics(self) -> dict[str, float]:
        """Of play, of the buffer, of what was refused."""
        return {
            **self.sink.window.metrics(),
            **self.sink.metrics,
            **self.cut_off.metrics(),
            **{f"buffer/{name}": float(value) for name, value in self.buffer.counters.items()},
            "experience/refused": float(self.sink.refusals.total),
        }
