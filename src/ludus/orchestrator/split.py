"""Dispatcher and trainer as separate processes; this process holds tasks, experience, buffer, league and storage.

Synchronous: an update trains on exactly the tasks of one batch, in task order. Batches are issued between updates, so
many ahead as `synchronise.offset` says, and played with the version that was newest then; the result does not depend on
who finished when. Asynchronous: both go on at once, bounded by the buffer's limits and by `train.max_staleness`. In
both, an episode is on disk before it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.buffer import Buffer, Claim, OfflineSources
from ludus.config import wanted_sources
from ludus.errors import RolloutError
from ludus.experience import are_greedy, build_filters, build_pipeline, with_baselines
from ludus.ingest.gathering import open_offline_sources
from ludus.orchestrator.dispatcher import Dispatcher
from ludus.orchestrator.done_tasks import DoneTasks
from ludus.orchestrator.endpoint_bill import EndpointBill
from ludus.orchestrator.logged_tasks import note_logged_episodes, note_logged_rows
from ludus.orchestrator.progress import UpdateReport
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.rooms import Rooms
from ludus.orchestrator.trainer_client import NAME as TRAINER
from ludus.orchestrator.trainer_client import Order, TrainerClient
from ludus.records import Experiences, PolicyRef, Seat, Task, TaskId, derive_seed
from ludus.runtime import Arrived, Lost, Stop
from ludus.sources.batches_ahead import BatchesAhead, IssuedBatch
from ludus.sources.feeds import Feeds
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.segments import SegmentLog
from ludus.storage.tensors import load_tensors
from ludus.telemetry import Fill
from ludus.train.messages import Trained

POLL_S = 0.05
LOST_ROWS = ("stale", "evicted_unused", "lost")
"""What the buffer calls rows that were never trained on."""
ORDERS_AHEAD = 2
"""Batches that the trainer has in hand in the asynchronous schedule, so that it never waits for this process."""


FRUITLESS_BATCHES = 4
"""Batches of episodes in a row that may all be unusable before the run stops."""
SIFTED_AWAY_BATCHES = 64
"""Batches in a row of which operators may refuse everything before the run stops."""


class Split:
    """The split topology."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        config = rooms.config
        self._is_async = config.schedule == "async"
        self._trains = config.mode != "explore"
        self._learns_from_play = "on_policy" in wanted_sources(config.train.algorithm)
        self._explores = config.mode != "train" and self._learns_from_play
        self.publish_interval = config.publish_interval if self._trains else None
        self.most_orders: int | None = None
        self._offset = config.synchronise.offset
        self._batch_episodes = config.train.batch_episodes or 1
        mirrors = any(choice.kind == "mirror" for choice in config.league.opponents)
        self._meets_others = not mirrors or len(config.league.opponents) > 1
        self._seats = seats = max(spec.players for spec in rooms.specs.values()) if mirrors else 1
        self._log = SegmentLog(rooms.run.path, "experiences", rooms.catalog)
        self._buffer = Buffer(
            self._log,
            config.buffer,
            batch_rows=self._batch_episodes * seats,
            rows_per_episode=seats,
            concurrency=config.explore.games_in_flight * 2,
            max_staleness=config.train.max_staleness if self._is_async else None,
            interval=config.publish_interval,
        )
        self._pipeline = build_pipeline(config.experience)
        # In turn, a batch is transformed when it is claimed, in task order; else rows are when they arrive.
        self._transforms_on_arrival = self._is_async or config.mode != "both"
        self._done = DoneTasks()
        self._ahead = BatchesAhead()
        self._lag: dict[str, float] = {}
        self._intake = RolloutSink(
            rooms,
            self._buffer,
            self._pipeline if self._transforms_on_arrival else None,
            sieve=build_filters(config.experience),
            is_done=lambda task: task in self._done,
        )
        self._feeds = Feeds(rooms, self._buffer, self._intake.refusals)
        self._side = OfflineSources()
        self._bill = EndpointBill(config.explore.workers)
        self._trainer = TrainerClient(rooms)
        self._explorers: Dispatcher | None = None
        self._finished: list[tuple[Order, Trained]] = []
        self._weights: dict[str, NDArray[Any]] = {}
        self._ordered = 0
        self._orders_ahead = ORDERS_AHEAD if self._is_async else 1  # so that an order never depends on who was how fast
        self._is_starving = False

    # -- what the loop asks for ------------------------------------------------------------------------------------

    @property
    def is_exhausted(self) -> bool:
        """Only exploring: the buffer is full. Only training: it is empty."""
        if not self._trains:
            return len(self._buffer) >= self._buffer.limits.capacity
        return self._learns_from_play and not self._explores and not self._feeds and self.is_dry

    @property
    def is_dry(self) -> bool:
        """Whether there is no batch to train on, and none in the trainer's hands."""
        if not self._trainer.queued and not self._finished:
            self._keep_trainer_busy()
        self._is_starving = not self._trainer.queued and not self._finished
        return self._is_starving

    @property
    def taken_in(self) -> int:
        """Sequences that have come into the buffer since the start of the run."""
        return self._buffer.counters["inserted"]

    def take_in(self, wanted: int) -> bool:
        """Take a part of what feeds bring, or have so many more sequences played; returns whether there is no more."""
        if not self._explores:
            is_starving, self._is_starving = self._is_starving, False  # it is fed after this, or will be found so again
            with self._rooms.telemetry.room("buffer"):
                return self._feeds.take_in(is_starving=is_starving)
        self._check_fruits()
        self._explore_more(-(-wanted // self._seats))
        return True

    def begin(self, saved: Checkpoint | None) -> None:
        """Start the processes from a checkpoint, or with fresh weights."""
        buffer = self._rooms.config.buffer
        self._side = open_offline_sources(self._rooms, buffer.expert, buffer.pairs)
        if saved is not None:
            self._side.load_state(saved.state.get("side", {}))
            self._buffer.load_state(saved.state["buffer"])
            self._pipeline.load_state(saved.state["pipeline"])
            self._intake.refusals.load_state(saved.state["refused"])
            self._done = DoneTasks(int(saved.state["done_before"]), saved.state.get("done_above", ()))
            self._ahead.load_state(saved.state.get("issued", ()))
            self._bill.load_state(saved.state.get("endpoints", {"totals": {}}))
            rows = sum(count for _, count, *_ in saved.state["buffer"]["live"])
            self._feeds.load_state(saved.state.get("feeds", {}), rows=rows)
            self._weights = saved.tensors("weights")
        note_logged_episodes(self._rooms, self._done)
        if self._is_async:
            note_logged_rows(self._rooms, self._done, self._log, self._intake)
        self._trainer.begin(None if saved is None else saved.path)
        self._ordered = self._rooms.progress.update
        self._start_meters()
        if not self._feeds:  # else others play, and explorers are started for the first evaluation
            self._start_explorers()
        if self._explores:
            self._submit_again()

    def advance(self) -> UpdateReport:
        """Explore and train until one update is done."""
        self._take_inbox()
        if not self._trains:
            return self._advance_exploring()
        if not self._learns_from_play:
            self._order(None, Experiences.empty())
            self._wait_until(lambda: bool(self._finished))
        elif self._is_async or not self._explores:
            self._wait_until(lambda: bool(self._finished), self._keep_everybody_busy)
        else:
            while len(self._ahead) <= self._offset:
                self._issue_batch()
            while not self._order_batch(self._play_batch()):
                self._issue_batch()
            self._wait_until(lambda: bool(self._finished))
        return self._take_update(*self._finished.pop(0))

    def _take_inbox(self) -> None:
        """Take the rows that people annotated, and drop those that they rejected."""
        self._side.take_inbox()
        self._buffer.discard(self._side.rejected)

    def tend(self, timeout_s: float) -> None:
        """Take what the workers bring."""
        for event in self._rooms.supervisor.poll(timeout_s):
            self._handle(event)

    def save(self, staging: Path) -> dict[str, Any]:
        """The trainer's files, and the cursors that belong to them."""
        self._trainer.save(staging, self.tend)
        if self._is_async:
            self._rooms.tasks.settle()
        self._weights = load_tensors(staging / "weights.safetensors")
        return {
            "buffer": self._buffer.state(),
            "pipeline": self._pipeline.state(),
            "refused": self._intake.refusals.state(),
            "endpoints": self._bill.state(),
            "side": self._side.state(),
            "feeds": self._feeds.state(),
            "done_before": self._done.before,
            "done_above": self._done.above,
            "issued": self._ahead.state(self._done),
        }

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The weights as of the last save."""
        return self._weights

    def use_version(self, ref: PolicyRef) -> None:
        """Tasks name their version, so explorers load it when they first meet it. Old segments can go now."""
        self._trim()
        self._write_refused()

    def refresh_opponents(self) -> None:
        """Opponents are drawn for each task."""

    def submit_evaluation(self, tasks: Sequence[Task]) -> None:
        """Dispatcher play evaluation games between training games."""
        if tasks and self._explorers is None:
            self._start_explorers()
        if tasks and self._explorers is not None:
            self._explorers.submit(tasks)

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Synchronous: have what was issued ahead played to the end, so that what is there does not depend on who was
        how fast; a run that goes on will train on it."""
        end = max((batch.end for batch in self._ahead), default=0) if self._explores else 0
        self._wait_until(lambda: self._done.before >= end or is_stopping())
        return self._done.before >= end

    def close(self) -> None:
        """End all processes."""
        if bill := self._bill.metrics():
            self._rooms.telemetry.event("endpoints", **bill)
        self._rooms.supervisor.stop(Stop(), grace_s=1.0)

    def _start_meters(self) -> None:
        """Let people see what waits in the buffer and before the trainer."""
        meters, supervisor = self._rooms.telemetry.meters, self._rooms.supervisor
        meters.watch("buffer", "window", lambda: Fill(length=len(self._buffer), capacity=self._buffer.limits.capacity))
        meters.watch("train", "batches", lambda: Fill(length=self._trainer.queued, capacity=self._orders_ahead))
        meters.watch_workers("train", lambda: [supervisor.pid(TRAINER)])

    # -- exploring -------------------------------------------------------------------------------------------------

    def _start_explorers(self) -> None:
        explore = self._rooms.config.explore
        slots = -(-explore.games_in_flight // explore.workers)
        self._explorers = Dispatcher(self._rooms, workers=explore.workers, slots=slots, bill=self._bill)

    def _issue_batch(self) -> None:
        """Synchronous: have the next batch played, but for tasks that are in the log already."""
        progress = self._rooms.progress
        first, end = progress.next_task, progress.next_task + self._batch_episodes
        tasks = self._submit([TaskId(task) for task in self._done.missing(first, end)])
        published, lineups = self._ordered - progress.unpublished, {task.id: task.seats for task in tasks}
        self._ahead.add(IssuedBatch(first=first, end=end, published=published, lineups=lineups))
        progress.next_task = end

    def _play_batch(self) -> IssuedBatch:
        """Synchronous: wait until the oldest batch has been played, and take it."""
        end = self._ahead.first.end
        with self._rooms.telemetry.room("explore"):
            self._wait_until(lambda: self._done.before >= end)
        self._rooms.tasks.settle(before=end)
        return self._ahead.take()

    def _submit(self, tasks: Sequence[TaskId]) -> list[Task]:
        rooms = self._rooms
        made = [rooms.tasks.training(task, 1, self._seats_for)[0] for task in tasks]
        if self._explorers is not None:
            self._explorers.submit(made)
        return made

    def _submit_again(self) -> None:
        """After a resume: what was issued before the checkpoint and has not been played since."""
        rooms = self._rooms
        if self._is_async:
            self._submit([TaskId(task) for task in self._done.missing(self._done.before, rooms.progress.next_task)])
        elif self._explorers is not None:
            lineups = {task: lineup for batch in self._ahead for task, lineup in batch.lineups.items()}
            missing = [task for task in lineups if task not in self._done]
            self._explorers.submit(
                [rooms.tasks.training(task, 1, lambda *_, task=task: lineups[task])[0] for task in missing]
            )

    def _seats_for(self, task: TaskId, game: str) -> tuple[Seat, ...]:
        return self._rooms.matchmaker.seats_for(task, self._rooms.specs[game])

    def _keep_everybody_busy(self) -> None:
        self._explore_more()
        self._keep_trainer_busy()

    def _explore_more(self, episodes: int = 0) -> None:
        """Begin what the buffer's limits allow; at least so many episodes are under way then."""
        if self._explores and self._explorers is not None:
            running = self._explorers.running_for_training + self._intake.waiting
            count = max(self._may_explore(running), episodes - running)
            self._submit_next(self._intake.to_begin(self._rooms.progress.next_task, count))

    def _submit_next(self, count: int) -> None:
        """The next tasks, but for those that were played before the last stop and after its checkpoint."""
        progress = self._rooms.progress
        first, progress.next_task = progress.next_task, progress.next_task + count
        self._submit([TaskId(task) for task in self._done.missing(first, progress.next_task)])

    def _may_explore(self, running: int) -> int:
        return self._buffer.may_explore(running, unpublished=self._rooms.progress.unpublished)

    def _advance_exploring(self) -> UpdateReport:
        """Explore-only: one batch of episodes into the buffer."""
        goal = self._intake.training_episodes + self._batch_episodes
        steps = self._intake.training_steps
        self._wait_until(lambda: self._intake.training_episodes >= goal or self.is_exhausted, self._keep_explorers_busy)
        return UpdateReport(
            steps=self._intake.training_steps - steps,
            episodes=self._batch_episodes,
            metrics=self._play_metrics(),
            is_learnt=False,
        )

    def _keep_explorers_busy(self) -> None:
        if self._explorers is not None:
            self._submit_next(
                max(self._rooms.config.explore.games_in_flight * 2 - self._explorers.running_for_training, 0)
            )

    # -- training --------------------------------------------------------------------------------------------------

    def _order_batch(self, batch: IssuedBatch) -> bool:
        """Synchronous: all rows of a batch's tasks, in task order, transformed in that order; False when operators
        refused all of them, so that others must be played."""
        version, count = self._rooms.progress.version, batch.end - batch.first
        claim = self._buffer.claim_tasks(batch.first, count, version=version)
        rows = self._buffer.read(claim)
        if are_greedy(rows).all():
            self._buffer.abandon(claim)
            # Of batches that are played ahead an episode may have failed, which tells nothing of this batch.
            fruitless = self._intake.fruitless >= (count if self._offset else 1)
            if fruitless or self._intake.sifted_away > SIFTED_AWAY_BATCHES * count:
                raise self._nothing_usable(max(self._intake.fruitless, self._intake.sifted_away))
            return False
        experiences = self._pipeline.on_step(self._pipeline.on_final(rows))
        self._lag = {"train/updates_behind": float(self._ordered - batch.published)}
        self._order(claim, experiences)
        return True

    def _nothing_usable(self, episodes: int) -> RolloutError:
        self._write_refused()
        what = f"none of the {episodes} episodes of update {self._rooms.progress.update + 1} can be trained on"
        return RolloutError(f"{what} {self._intake.why_refused()}; ludus inspect {self._rooms.run.path} shows more")

    def _keep_trainer_busy(self) -> None:
        while self._trains and self._trainer.queued < self._orders_ahead and self._may_order:
            seed = derive_seed(self._rooms.config.seed, "claim", self._ordered)
            claim = self._buffer.claim(self._rooms.progress.version, seed=seed % 2**32)
            if claim is None:
                return
            rows = self._buffer.read(claim)
            if are_greedy(rows).all():  # all that was to be compared with them is gone
                self._buffer.commit(claim)
                continue
            self._order(claim, rows)

    @property
    def _may_order(self) -> bool:
        return self.most_orders is None or self._trainer.queued + len(self._finished) < self.most_orders

    def _order(self, claim: Claim | None, on_policy: Experiences) -> None:
        config = self._rooms.config
        self._ordered += 1
        side = self._side.claim()
        self._trainer.order(
            update=self._ordered,
            seed=derive_seed(config.seed, "update", self._ordered) % 2**32,
            progress=min(self._rooms.progress.steps / config.train.steps, 1.0),
            experiences=with_baselines(
                side.mixed_with(self._pipeline.on_sample(on_policy) if len(on_policy) else on_policy)
            ),
            claim=(claim, side),
        )

    def _take_update(self, order: Order, trained: Trained) -> UpdateReport:
        self._trainer.conclude(order)
        claim, side = order.claim
        self._side.commit(side)
        if claim is not None:
            self._buffer.commit(claim)
        episodes = len(set(order.experiences.sequences["episode"].tolist()))
        meters, counters = self._rooms.telemetry.meters, self._buffer.counters
        meters.add("train", 1)
        meters.set("buffer", dropped=sum(counters[reason] for reason in LOST_ROWS))
        staleness = np.asarray([] if claim is None else claim.staleness, np.float64)
        rewards = np.asarray(order.experiences.sequences["final_reward"], np.float64)
        return UpdateReport(
            steps=int(order.experiences.steps["mask"].sum()),
            episodes=episodes,
            rated_games=len(rewards) if self._meets_others else 0,
            score=float((0.5 + 0.5 * np.sign(rewards)).mean()) if len(rewards) else 0.0,
            mean_return=float(rewards.mean()) if len(rewards) else 0.0,
            metrics={
                **{f"train/{name}": value for name, value in trained.metrics.items()},
                "train/staleness": float(staleness.mean()) if len(staleness) else 0.0,
                **self._lag,
                "train/seconds": trained.seconds,
                **self._play_metrics(),
            },
        )

    # -- what comes back -------------------------------------------------------------------------------------------

    def _wait_until(self, is_reached: Callable[[], bool], meanwhile: Callable[[], None] | None = None) -> None:
        """Serve the workers until something holds. Dead or hung workers are replaced, so this makes progress."""
        while not is_reached():
            if meanwhile is not None:
                meanwhile()
            self.tend(POLL_S)
            self._check_fruits()

    def _check_fruits(self) -> None:
        if self._intake.fruitless >= FRUITLESS_BATCHES * self._batch_episodes:
            raise self._nothing_usable(self._intake.fruitless)

    def _handle(self, event: Arrived | Lost) -> None:
        if self._explorers is not None:
            for delivery in self._explorers.absorb(event):
                played = self._intake.take(delivery)
                self._rooms.tasks.absorb(played)
                self._done.add(episode.task.id for episode in played)
        self._finished += self._trainer.absorb(event)

    def _trim(self) -> None:
        """Give back disk that no checkpoint needs, down to the configured budget."""
        rooms = self._rooms
        retained = rooms.retained.values()
        budget = rooms.config.record.keep_mb * 1_000_000 // 2
        if self._buffer.trim([state["buffer"] for state in retained], keep_bytes=budget) or rooms.trim_episodes():
            settled = min((int(state["done_before"]) for state in retained), default=0)
            rooms.episodes.settle(settled)
            self._log.settle(settled)
            self._intake.trim_refused(budget, settled_before=settled)

    def _write_refused(self) -> None:
        dropped = {reason: self._buffer.counters[reason] for reason in LOST_ROWS}
        self._intake.refusals.write(self._rooms.catalog, also=dropped)

    def _play_metrics(self) -> dict[str, float]:
        counters = {f"buffer/{name}": float(value) for name, value in self._buffer.counters.items()}
        running = self._explorers.running if self._explorers is not None else 0
        return {
            **self._intake.window.metrics(),
            **self._intake.metrics,
            **self._side.metrics(),
            **self._bill.metrics(),
            **self._feeds.metrics,
            **counters,
            "queue/episodes_in_flight": float(running),
            "queue/batches_ahead": float(self._trainer.queued),
            "experience/refused": float(self._intake.refusals.total),
        }
