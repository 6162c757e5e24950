"""Continuous batching: which rows are computed next, and what becomes of what comes out.

Each step computes one row for every completion being written and as many prompt tokens as the budget allows, draws a
token where one is due, and lets jobs end and others begin. Prompts that are equal are computed once, and a job whose
prompt begins like one that is being computed waits for that.

Invariant: what a job gets depends on its request alone; the scheduler decides only when. Everything happens in
`submit`, `cancel` and `step`, on one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ludus.errors import PolicyError
from ludus.explore.engines.batching.admission import Admission
from ludus.explore.engines.batching.block_pool import Key
from ludus.explore.engines.batching.job import Job
from ludus.explore.engines.batching.passes import Part, Pass, Reading, make_pass
from ludus.explore.engines.batching.slots import Slots
from ludus.explore.engines.batching.versions import Version, Versions
from ludus.explore.engines.decoding.rows import Rows
from ludus.explore.engines.decoding.token_model import TokenModel
from ludus.explore.engines.protocol import Completion, EngineCounters, Finish
from ludus.records import PolicyRef

Begins = Literal["begun", "wait", "no room"]


@dataclass(slots=True, kw_only=True)
class Lane:
    """The jobs of one policy version."""

    version: Version
    reading: list[Job] = field(default_factory=list)
    """Jobs whose prompt is being computed, the oldest first."""
    writing: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Slots whose tokens are being drawn."""
    jobs: int = 0


class Scheduler:
    """Runs jobs."""

    def __init__(
        self,
        *,
        slots: Slots,
        admission: Admission,
        versions: Versions,
        model: TokenModel,
        prefill_tokens: int,
        counters: EngineCounters,
    ) -> None:
        self._slots = slots
        self._admission = admission
        self._versions = versions
        self._model = model
        self._prefill_tokens = prefill_tokens
        self._counters = counters
        self._waiting: deque[Job] = deque()
        self._begun: dict[int, Job] = {}
        self._lanes: dict[PolicyRef, Lane] = {}
        self._leaders: dict[tuple[PolicyRef, bytes], Job] = {}
        self._pending: dict[Key, Job] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._begun

    def jobs(self) -> list[Job]:
        """All jobs that are not done."""
        return [*self._waiting, *self._begun.values()]

    def submit(self, job: Job) -> None:
        """Take a job; it begins when there is room."""
        self._waiting.append(job)

    def cancel(self, job: Job) -> None:
        """Forget a job; those that follow it go on without it."""
        if job.state == "waiting":
            self._waiting.remove(job)
            job.state = "done"
        elif job.state != "done":
            self._leave(job)
            self._admission.abandon(job)

    def step(self) -> None:
        """Compute one batch of every policy version that has work."""
        self._admit()
        budget = self._prefill_tokens
        groups: dict[int, list[Part]] = {}
        for lane in self._lanes.values():
            readings = _choose_readings(lane, budget)
            budget -= sum(reading.stop - reading.job.computed for reading in readings)
            if readings or len(lane.writing):
                part = Part(version=lane.version, writing=lane.writing, readings=readings)
                groups.setdefault(lane.version.group, []).append(part)
        for parts in groups.values():
            self._compute(parts)

    # Beginning

    def _admit(self) -> None:
        """Begin jobs in the order they came, passing over those for which another computes. When one finds no room,
        those behind it wait too: else a long one might wait for ever."""
        passed_over: list[Job] = []
        while self._waiting and self._slots.free:
            job = self._waiting.popleft()
            try:
                begins = self._try_to_begin(job)
            except PolicyError as error:
                job.state = "done"
                job.done(error)
                continue
            if begins != "begun":
                passed_over.append(job)
            if begins == "no room":
                break
        self._waiting.extendleft(reversed(passed_over))

    def _try_to_begin(self, job: Job) -> Begins:
        lane = self._lane(job.request.policy)
        leader = self._leaders.get(_prompt_key(job))
        begins = self._follow(job, leader) if leader is not None else self._lead(job, lane)
        if begins == "begun":
            lane.jobs += 1
            job.slot = self._slots.open(job.request, job.blocks)
            self._begun[job.slot] = job
        self._close_if_empty(lane)
        return begins

    def _follow(self, job: Job, leader: Job) -> Begins:
        if not self._admission.follow(job, leader):
            return "no room"
        job.state, job.leader = "following", leader
        leader.followers.append(job)
        self._count_prompt(job, reused=len(job.prompt))
        return "begun"

    def _lead(self, job: Job, lane: Lane) -> Begins:
        known = self._admission.look_up(job)
        if job.next_key() in self._pending:
            return "wait"
        # A job that nothing runs beside must get its room, or it would wait for ever.
        if not self._admission.begin(job, known, beyond=not self._begun):
            return "no room"
        self._read(job, lane)
        self._count_prompt(job, reused=job.computed)
        return "begun"

    def _read(self, job: Job, lane: Lane) -> None:
        job.state = "reading"
        lane.reading.append(job)
        self._leaders[_prompt_key(job)] = job
        self._announce(job)

    def _announce(self, job: Job) -> None:
        """Say which block of a prompt is going to be known, so that others wait for it."""
        key = job.next_key()
        if key is not None:
            self._pending.setdefault(key, job)

    def _retract(self, job: Job) -> None:
        key = job.next_key()
        if key is not None and self._pending.get(key) is job:
            del self._pending[key]

    def _count_prompt(self, job: Job, *, reused: int) -> None:
        self._counters.prompt_tokens += len(job.prompt)
        self._counters.reused_tokens += reused

    # Computing

    def _compute(self, parts: Sequence[Part]) -> None:
        now = make_pass(self._slots, parts)
        logits, hidden = self._model.forward(now.rows)
        for part in parts:
            for reading in part.readings:
                self._advance(reading)
        if len(now.slots):
            self._draw(now, logits, _values(parts, now.rows, hidden))

    def _advance(self, reading: Reading) -> None:
        """A stretch of a prompt is computed."""
        job = reading.job
        self._retract(job)
        job.computed = reading.stop
        self._admission.remember(job, job.prompt[: job.computed])
        if not reading.is_last:
            self._announce(job)
            return
        lane = self._lanes[job.request.policy]
        lane.reading.remove(job)
        del self._leaders[_prompt_key(job)]
        for follower in job.followers:
            self._admission.catch_up(follower)
            follower.leader, follower.state = None, "writing"
        job.state = "writing"
        lane.writing = np.append(lane.writing, [one.slot for one in (job, *job.followers)])
        job.followers = []

    def _draw(self, now: Pass, logits: Tensor, values: NDArray[np.float32] | None) -> None:
        if now.sources is not None:
            logits = logits[now.sources]
            values = None if values is None else values[now.sources]
        tokens, logps = self._model.draw(logits, self._slots.draws(now.slots))
        complete = self._slots.record(now.slots, tokens, logps, values)
        self._counters.sampled_tokens += len(tokens)
        for slot in now.slots[complete | ~np.isfinite(logps)].tolist():
            self._finish(self._begun[slot])

    # Ending

    def _finish(self, job: Job) -> None:
        slots, slot = self._slots, job.slot
        count = int(slots.written[slot])
        tokens, logps = slots.out_tokens[slot, :count].copy(), slots.out_logps[slot, :count].copy()
        values = slots.out_values[slot, :count].copy()
        finish: Finish = "stop" if slots.stopped(slot) else "length"
        self._leave(job)
        if not np.isfinite(logps).all():
            self._admission.abandon(job)
            job.done(PolicyError(f"{job.request.policy} gives log-probabilities that are not finite numbers"))
            return
        self._admission.end(job, tokens)
        job.done(Completion(tokens=tokens, logps=logps, values=values, policy=job.request.policy, finish=finish))

    def _leave(self, job: Job) -> None:
        """Take a job that has begun out of everything but its blocks."""
        lane = self._lanes[job.request.policy]
        if job.state == "reading":
            self._stop_reading(job, lane)
        elif job.leader is not None:
            job.leader.followers.remove(job)
        else:
            lane.writing = lane.writing[lane.writing != job.slot]
        job.state = "done"
        del self._begun[job.slot]
        self._slots.close(job.slot)
        lane.jobs -= 1
        self._close_if_empty(lane)

    def _stop_reading(self, job: Job, lane: Lane) -> None:
        """A prompt will not be read to its end by this job; its first follower takes over."""
        self._retract(job)
        lane.reading.remove(job)
        del self._leaders[_prompt_key(job)]
        if not job.followers:
            return
        heir, *others = job.followers
        self._admission.inherit(heir)
        heir.leader, heir.followers = None, others
        for other in others:
            other.leader = heir
        self._read(heir, lane)

    def _lane(self, policy: PolicyRef) -> Lane:
        if policy not in self._lanes:
            self._lanes[policy] = Lane(version=self._versions.acquire(policy))
        return self._lanes[policy]

    def _close_if_empty(self, lane: Lane) -> None:
        if not lane.jobs:
            del self._lanes[lane.version.policy]
            self._versions.release(lane.version.policy)


def _choose_readings(lane: Lane, budget: int) -> list[Reading]:
    """Stretches of prompts up to the budget, the oldest first."""
    readings = []
    for job in lane.reading:
        if budget <= 0:
            break
        stop = min(len(job.prompt), job.computed + budget)
        budget -= stop - job.computed
        readings.append(Reading(job=job, stop=stop))
    return readings


def _values(parts: Sequence[Part], rows: Rows, hidden: Tensor) -> NDArray[np.float32] | None:
    """What the critics say of the rows wanted; None if there are no critics."""
    if all(part.version.critic is None for part in parts):
        return None
    values = np.zeros(len(hidden), np.float32)
    for part, span in zip(parts, rows.spans, strict=True):
        if part.version.critic is not None and span.last_wanted > span.first_wanted:
            wanted = slice(span.first_wanted, span.last_wanted)
            values[wanted] = part.version.critic.judge(hidden[wanted])
    return values


def _prompt_key(job: Job) -> tuple[PolicyRef, bytes]:
    return job.request.policy, job.prompt.tobytes()
