"""A discrete-event simulation of an asynchronous run: explorers, the loop that files what they play, and a trainer.

Explorers play chunks of episodes with the version that they have, one loop files the chunks in turn, one trainer takes
batches of the oldest; a version is on the explorers a while after its update. Processes have a core each, or share
some: then all that compute are slowed alike. Invariant: every episode that was given out is in flight, filed, refused
as too old, or trained on. Not modelled: evaluations, checkpoints, lost workers, and the spread of episode lengths.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """CPU-seconds per episode, and the seconds until a version is everywhere."""

    explore_s: float
    loop_s: float
    train_s: float
    publish_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Who takes part, and within which bounds."""

    explorers: int
    batch: int
    chunk: int
    """Episodes in one message of an explorer."""
    capacity: int
    """Episodes that are given out and not yet trained on, at most."""
    max_staleness: int
    cores: float = math.inf
    """That all processes share; infinite: each has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a simulated run did, after its first tenth."""

    episodes_per_s: float
    """Trained on."""
    staleness: float
    """Versions behind the newest, mean over the episodes of batches."""
    most_stale: int
    refused: int
    in_flight: int
    filed: int
    given_out: int
    trained: int
    busy: dict[str, float]
    """Share of the time in which the loop and the trainer were at work, and of the explorers' time."""


@dataclass(slots=True)
class _Books:
    given_out: int = 0
    trained: int = 0
    refused: int = 0
    stale_sum: int = 0
    most_stale: int = 0
    busy: dict[str, float] = field(default_factory=lambda: {"explorers": 0.0, "loop": 0.0, "trainer": 0.0})


@dataclass(slots=True)
class _State:
    now: float = 0.0
    work: float = 0.0
    """The clock of computing: as fast as time where each process has a core."""
    computing: list[tuple[float, int, str, int]] = field(default_factory=list)
    """By the work at which each is done; who, and the version it plays with or makes."""
    arriving: list[tuple[float, int]] = field(default_factory=list)
    idle: int = 0
    queue: deque[int] = field(default_factory=deque)
    """Versions of chunks that wait for the loop."""
    stock: deque[int] = field(default_factory=deque)
    """Versions of chunks that are filed."""
    version: int = 0
    known: int = 0
    """The version that explorers have."""
    is_filing: bool = False
    is_training: bool = False
    books: _Books = field(default_factory=_Books)


class ScaleSimulation:
    """One run. Deterministic."""

    def __init__(self, setup: Setup, costs: Costs) -> None:
        self._setup, self._costs = setup, costs
        self._state = _State(idle=setup.explorers)
        self._order = 0

    def run(self, seconds: float) -> Outcome:
        """Simulate so many seconds."""
        state, start = self._state, (0, 0, 0)
        self._go_on()
        while state.now < seconds and (state.computing or state.arriving):
            self._advance()
            self._go_on()
            if state.now >= seconds / 10 and not start[0]:
                start = (1, state.books.trained, state.books.stale_sum)
                began = state.now
                state.books.busy = dict.fromkeys(state.books.busy, 0.0)
        counted, span = state.books.trained - start[1], state.now - began
        return Outcome(
            episodes_per_s=counted / span,
            staleness=(state.books.stale_sum - start[2]) / max(counted, 1),
            most_stale=state.books.most_stale,
            refused=state.books.refused,
            in_flight=state.books.given_out
            - state.books.trained
            - state.books.refused
            - len(state.stock) * self._setup.chunk,
            filed=len(state.stock) * self._setup.chunk,
            given_out=state.books.given_out,
            trained=state.books.trained,
            busy={
                who: share / span / (self._setup.explorers if who == "explorers" else 1)
                for who, share in state.books.busy.items()
            },
        )

    def _go_on(self) -> None:
        """Let everybody who can begin something begin it."""
        state, setup, costs = self._state, self._setup, self._costs
        while state.idle and self._outstanding() + setup.chunk <= setup.capacity:
            state.idle -= 1
            state.books.given_out += setup.chunk
            self._compute("explorers", state.known, setup.chunk * costs.explore_s)
        if state.queue and not state.is_filing:
            state.is_filing = True
            self._compute("loop", state.queue.popleft(), setup.chunk * costs.loop_s)
        while state.stock and state.version - state.stock[0] > setup.max_staleness:
            state.stock.popleft()
            state.books.refused += setup.chunk
        if not state.is_training and len(state.stock) * setup.chunk >= setup.batch:
            state.is_training = True
            for _ in range(setup.batch // setup.chunk):
                age = state.version - state.stock.popleft()
                state.books.stale_sum += age * setup.chunk
                state.books.most_stale = max(state.books.most_stale, age)
            state.books.trained += setup.batch
            self._compute("trainer", state.version + 1, setup.batch * costs.train_s)

    def _outstanding(self) -> int:
        """Episodes that are given out and that nobody trains on yet."""
        return self._state.books.given_out - self._state.books.trained - self._state.books.refused

    def _compute(self, who: str, version: int, work_s: float) -> None:
        self._order += 1
        heapq.heappush(self._state.computing, (self._state.work + work_s, self._order, who, version))

    def _advance(self) -> None:
        """Go to the next moment at which something is done or arrives."""
        state = self._state
        speed = min(1.0, self._setup.cores / max(len(state.computing), 1))
        done = state.now + (state.computing[0][0] - state.work) / speed if state.computing else math.inf
        then = min(done, state.arriving[0][0] if state.arriving else math.inf)
        self._pass(then - state.now, speed)
        if then < done:
            state.known = max(state.known, heapq.heappop(state.arriving)[1])
            return
        _, _, who, version = heapq.heappop(state.computing)
        if who == "explorers":
            state.idle += 1
            state.queue.append(version)
        elif who == "loop":
            state.is_filing = False
            state.stock.append(version)
        else:
            state.is_training, state.version = False, version
            heapq.heappush(state.arriving, (state.now + self._costs.publish_s, version))

    def _pass(self, span: float, speed: float) -> None:
        state = self._state
        state.now += span
        state.work += span * speed
        busy = len(state.computing) - state.is_filing - state.is_training
        state.books.busy["explorers"] += busy * span
        state.books.busy["loop"] += state.is_filing * span
        state.books.busy["trainer"] += state.is_training * span


def simulate(setup: Setup, costs: Costs, *, updates: int = 200) -> Outcome:
    """A run that is long enough for some hundred updates at the pace of its slowest part."""
    slowest = max(costs.explore_s / setup.explorers, costs.loop_s, costs.train_s)
    shared = (costs.explore_s + costs.loop_s + costs.train_s) / setup.cores
    return ScaleSimulation(setup, costs).run(updates * setup.batch * max(slowest, shared))
