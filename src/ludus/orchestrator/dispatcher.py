"""A pool of explorer processes as one thing: tasks in, episodes out, whatever happens to the processes.

Invariant: every submitted task that is not cancelled comes back exactly once: as a played episode, as a failed one, or
among `cuts.given_up`. Of a cancelled task nothing comes back. A task in the hands of a lost worker is given out again;
the one whose code was running gets one more try and then counts as failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ludus.errors import DamagedPolicy, WorkerError
from ludus.explore.messages import Broken, Cancel, FromExplorer, GaveUp, Play, Played, Ready, Setup, StepLimits, Trouble
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.endpoint_bill import EndpointBill
from ludus.orchestrator.explorer_work import ExplorerWork
from ludus.orchestrator.placement import explorer_name, explorer_needs
from ludus.orchestrator.workers import worker_imports
from ludus.records import Episode, EpisodeBatch, EpisodeId, Experiences, PolicyRef, Task, episode_id
from ludus.runtime import Arrived, Lost, WorkerSpec
from ludus.storage.arrow import episodes_from_table, episodes_to_table, experiences_from_table, from_bytes
from ludus.telemetry import Fill

log = logging.getLogger(__name__)

TRIES = 2
DAMAGED_TRIES = 5
"""For an episode whose policy was damaged and is whole again; more than a version is repaired."""
TASKS_PER_SLOT = 3
"""In an explorer's hands: one that is played, one that waits to be, and one that waits to be handed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Episodes that came back, and the table they came in, which can go to the log as it is."""

    batch: EpisodeBatch
    episodes_table: pa.Table


class Waiting:
    """Tasks that nobody has yet. Training and evaluation take turns, so that neither waits for a block of the other."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Task]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def __iter__(self) -> Iterator[Task]:
        return chain(*self._queues.values())

    def add(self, tasks: Iterable[Task]) -> None:
        """To the ends of their queues."""
        for task in tasks:
            self._queues.setdefault(task.purpose, deque()).append(task)

    def put_back(self, tasks: Sequence[Task]) -> None:
        """To the fronts, in this order."""
        for task in reversed(tasks):
            self._queues.setdefault(task.purpose, deque()).appendleft(task)

    def remove(self, tasks: Set[int]) -> None:
        """Forget these."""
        kept = {purpose: [task for task in queue if task.id not in tasks] for purpose, queue in self._queues.items()}
        self._queues = {purpose: deque(queue) for purpose, queue in kept.items() if queue}

    def take(self) -> Task:
        """The next task of the purpose whose turn it is."""
        purpose, queue = next((purpose, queue) for purpose, queue in self._queues.items() if queue)
        task = queue.popleft()
        if len(self._queues) > 1 or not queue:
            del self._queues[purpose]
            if queue:
                self._queues[purpose] = queue  # behind the others
        return task


@dataclass(slots=True, kw_only=True)
class Cuts:
    """What explorers are to give up by themselves, and what became of that."""

    limits: dict[tuple[int, int], int] = field(default_factory=dict)
    """By range of tasks, the steps that each may have."""
    given_up: set[int] = field(default_factory=set)
    """Tasks that had more, until they are cancelled."""
    late: int = 0
    """Episodes that came back after their task was cancelled."""

    def message(self) -> StepLimits:
        """The limits, for an explorer."""
        return StepLimits(limits=[(first, end, steps) for (first, end), steps in self.limits.items()])


class _Limits(NamedTuple):
    """How many explorers there are, and what one may hold."""

    least: int
    most: int
    held: int
    """Tasks in the hands of one process."""


class Dispatcher:
    """Give it tasks with `submit`, feed it supervisor events with `absorb`, and take batches as they come.

    The processes start with the first task.
    """

    def __init__(
        self,
        context: RunContext,
        *,
        workers: int,
        slots: int,
        most_workers: int = 0,
        repair: Callable[[PolicyRef], bool] = lambda ref: False,
    ) -> None:
        """`workers` processes play `slots` tasks each at a time; as many as `most_workers` where nodes have room.

        `repair` makes a damaged version usable if it can.
        """
        self._context = context
        self._repair = repair
        self._limits = _Limits(least=workers, most=most_workers, held=slots * TASKS_PER_SLOT)
        self.bill = EndpointBill(workers)
        """What endpoints have cost, over all starts of the run."""
        self.work = ExplorerWork(shares_engines=context.config.explore.engine.kind == "vllm")
        self.cuts = Cuts()
        self._setup = Setup(
            run=context.config.name,
            config=context.config.model_dump_json(),
            shape=context.shape.to_json(),
            slots=slots,
            plugins=list(context.plugins),
            lm_config=context.lm_config,
        )
        self._waiting = Waiting()
        self._hands: dict[str, dict[EpisodeId, Task]] = {}
        self._strikes: dict[EpisodeId, int] = {}
        self._failed: list[Episode] = []
        self.running_for_training = 0
        """Training tasks submitted that have not come back."""

    def start(self) -> None:
        """Start the processes, so that the first task need not wait for them."""
        if self._hands:
            return
        for number in range(self._limits.least):
            self._start_explorer(explorer_name(number))
        meters = self._context.telemetry.meters
        meters.watch(
            "explore", "in flight", lambda: Fill(length=self.running, capacity=len(self._hands) * self._limits.held)
        )
        meters.watch_workers("explore", lambda: self._context.supervisor.cpu_s(list(self._hands)))

    def _start_explorer(self, name: str) -> None:
        config = self._context.config
        spec = WorkerSpec(
            name=name,
            module="ludus.explore.worker",
            replies=FromExplorer,
            stall_s=config.explore.deadline_s,
            imports=worker_imports(config),
            needs=explorer_needs(config),
        )
        self._context.supervisor.start(spec, is_needed=lambda: len(self._hands) <= self._limits.least)
        self._greet(name)

    def _add_explorers(self) -> None:
        """While there may be more, and the cluster has room for them."""
        supervisor, launcher = self._context.supervisor, self._context.launcher
        while len(self._hands) < self._limits.most and launcher.has_spare:
            name = next(name for name in map(explorer_name, count()) if name not in self._hands)
            if not supervisor.may_start(name):
                return
            self._start_explorer(name)
            log.info("%s is added: the cluster has room for it", name)
            self._context.telemetry.event("explorer_added", worker=name, explorers=len(self._hands))

    @property
    def running(self) -> int:
        """Tasks submitted that have not come back."""
        return len(self._waiting) + sum(len(hand) for hand in self._hands.values()) + len(self._failed)

    def versions(self) -> set[PolicyRef]:
        """Policies that tasks in hand will be played with."""
        tasks = chain(self._waiting, *(hand.values() for hand in self._hands.values()))
        return {seat.policy for task in tasks for seat in task.seats}

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks and hand out what fits."""
        tasks = list(tasks)
        if not tasks:
            return
        self.start()
        self.running_for_training += sum(task.purpose == "train" for task in tasks)
        self._waiting.add(tasks)
        self._context.telemetry.meters.add("tasks", len(tasks))
        self._hand_out()

    def cancel(self, tasks: Iterable[int]) -> None:
        """Nobody waits for these training tasks any more, wherever they are: explorers stop to play them."""
        doomed, before = set(tasks), self.running
        self.cuts.given_up -= doomed
        self._waiting.remove(doomed)
        for worker, hand in self._hands.items():
            if mine := self._take_back(hand, doomed):
                self._context.supervisor.send(worker, Cancel(tasks=mine))
        self.running_for_training -= before - self.running
        self._hand_out()

    def limit_steps(self, tasks: range, steps: int | None) -> None:
        """Have explorers give up those of these tasks that have more steps; None: they are over."""
        key, limits = (tasks.start, tasks.stop), self.cuts.limits
        if limits.get(key) == steps:
            return
        limits.pop(key, None)
        if steps is not None:
            limits[key] = steps
        for worker in self._hands:
            self._context.supervisor.send(worker, self.cuts.message())

    def absorb(self, event: Arrived | Lost) -> Iterator[Delivery]:
        """Take a supervisor event that concerns this pool; yields episodes that came back."""
        if event.worker not in self._hands:
            return
        if isinstance(event, Lost):
            self._give_back(event)
        elif isinstance(event.message, Played):
            delivery = self._unpack(event.worker, event.message, event.blob)
            if delivery.batch.episodes:
                yield delivery
        elif isinstance(event.message, GaveUp):
            given_up = self._take_back(self._hands[event.worker], set(event.message.tasks))
            self.cuts.given_up.update(given_up)
            self.running_for_training -= len(given_up)
        elif isinstance(event.message, Trouble):
            self._report_trouble(event.worker, event.message.reason)
        elif isinstance(event.message, Broken):
            raise WorkerError(f"{event.worker} cannot go on: {event.message.error}")
        elif not isinstance(event.message, Ready):
            raise WorkerError(f"{event.worker} sent {type(event.message).__name__}, which explorers never send")
        self._hand_out()
        if self._failed:
            failed, self._failed = tuple(self._failed), []
            self._count_back(failed)
            batch = EpisodeBatch(episodes=failed, experiences=Experiences.empty())
            yield Delivery(batch=batch, episodes_table=episodes_to_table(failed))

    def _report_trouble(self, worker: str, reason: str) -> None:
        """Tell that a worker waits for its engine, or no longer does."""
        if reason:
            log.warning("%s waits: %s", worker, reason)
            self._context.telemetry.event("engine_lost", worker=worker, reason=reason)
        else:
            log.warning("%s goes on: its engine answers again", worker)
            self._context.telemetry.event("engine_back", worker=worker)

    def _greet(self, worker: str) -> None:
        self._hands[worker] = {}
        self._context.supervisor.send(worker, msgspec.structs.replace(self._setup, spent=self.bill.spent(worker)))
        if self.cuts.limits:
            self._context.supervisor.send(worker, self.cuts.message())

    def _hand_out(self) -> None:
        """Give waiting tasks to whoever has least in hand, as long as there is room."""
        self._add_explorers()
        if not (waiting := len(self._waiting)):
            return
        given: dict[str, list[Task]] = {worker: [] for worker in self._hands}
        held, most, run = {name: len(hand) for name, hand in self._hands.items()}, self._limits.held, self._setup.run
        for _ in range(min(waiting, sum(max(most - number, 0) for number in held.values()))):
            worker = min(held, key=held.__getitem__)
            held[worker] += 1
            given[worker].append(self._waiting.take())
        for worker, tasks in given.items():
            self._hands[worker].update({episode_id(run, task.id, task.attempt): task for task in tasks})
            if tasks:
                self._context.supervisor.send(worker, Play(tasks=tasks))

    def _unpack(self, worker: str, played: Played, blob: memoryview) -> Delivery:
        self.bill.add(worker, played.counts)
        self.work.add(worker, played)
        table = from_bytes(blob[: played.episode_bytes])
        hand = self._hands[worker]
        episodes = episodes_from_table(table, hand)
        experiences = experiences_from_table(from_bytes(blob[played.episode_bytes :]))
        if late := {episode.id for episode in episodes} - hand.keys():
            self.cuts.late += len(late)
            episodes = [episode for episode in episodes if episode.id not in late]
            table = table.filter(pa.array([id not in late for id in table.column("id").to_pylist()], pa.bool_()))
            if len(experiences):
                of_rows = experiences.sequences["episode"].tolist()
                experiences = experiences.take(np.flatnonzero([id not in late for id in of_rows]))
        if again := self._to_repeat(episodes):
            self._waiting.put_back([hand.pop(id) for id in again])
            episodes = [episode for episode in episodes if episode.id not in again]
            table = episodes_to_table(episodes)
        self._count_back(episodes)
        for episode in episodes:
            del hand[episode.id]
            if self._strikes:
                self._strikes.pop(episode.id, None)
        batch = EpisodeBatch(episodes=tuple(episodes), experiences=experiences)
        return Delivery(batch=batch, episodes_table=table)

    def _to_repeat(self, episodes: Iterable[Episode]) -> list[EpisodeId]:
        """Episodes that failed for a damaged version that can be used now."""
        damaged = [episode for episode in episodes if episode.error.startswith(DamagedPolicy.__name__)]
        usable = {ref: self._repair(ref) for ref in {seat.policy for each in damaged for seat in each.task.seats}}
        again = []
        for episode in damaged:
            self._strikes[episode.id] = self._strikes.get(episode.id, 0) + 1
            if self._strikes[episode.id] < DAMAGED_TRIES and all(usable[seat.policy] for seat in episode.task.seats):
                again.append(episode.id)
        return again

    def _take_back(self, hand: dict[EpisodeId, Task], tasks: Set[int]) -> list[int]:
        """Take tasks out of a worker's hand; returns those that were there."""
        found = {id: task.id for id, task in hand.items() if task.id in tasks}
        for id in found:
            del hand[id]
            self._strikes.pop(id, None)
        return list(found.values())

    def _count_back(self, episodes: Iterable[Episode]) -> None:
        self.running_for_training -= sum(episode.task.purpose == "train" for episode in episodes)

    def _give_back(self, lost: Lost) -> None:
        """Requeue what the worker held; the task that was running gets a strike, and with enough of them fails."""
        hand = self._hands.pop(lost.worker)
        if lost.is_replaced:
            self._greet(lost.worker)
        again: list[Task] = []
        for episode, task in hand.items():
            if task.id == lost.task:
                self._strikes[episode] = self._strikes.get(episode, 0) + 1
            if self._strikes.get(episode, 0) >= TRIES:
                self._strikes.pop(episode)
                self._failed.append(Episode.failed(episode, task, f"WorkerError: {lost.worker} {lost.reason}"))
            else:
                again.append(task)
        self._waiting.put_back(again)
        self.work.requeued += len(again)
        self._context.telemetry.event(
            "worker_lost",
            worker=lost.worker,
            reason=lost.reason,
            task=lost.task,
            requeued=len(again),
            is_replaced=lost.is_replaced,
            log_tail=lost.log_tail,
        )
