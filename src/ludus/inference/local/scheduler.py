"""Continuous batching: which rows are computed next, and what becomes of what comes out.

Each step computes one row for every completion being written and as many prompt tokens as the budget allows, draws a
token where one is due, and lets jobs end and others begin.

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
from ludus.inference.local.admission import Admission, Job, Prompts, Reading
from ludus.inference.local.extras import Extras
from ludus.inference.local.passes import Part, Pass, Slots, make_pass
from ludus.inference.local.versions import Version, Versions
from ludus.inference.protocol import Completion, EngineCounters, Finish
from ludus.lm.decoder import TokenModel
from ludus.lm.rows import Rows
from ludus.records import PolicyRef

Begins = Literal["begun", "wait", "no room"]


@dataclass(slots=True, kw_only=True)
class VersionJobs:
    """The jobs of one policy version."""

    version: Version
    writing: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Slots whose tokens are being drawn."""
    count: int = 0


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
        extras: Extras,
    ) -> None:
        self._slots = slots
        self._admission = admission
        self._versions = versions
        self._model = model
        self._prefill_tokens = prefill_tokens
        self._counters = counters
        self._extras = extras
        self._prompts = Prompts(admission)
        self._waiting: deque[Job] = deque()
        self._begun: dict[int, Job] = {}
        self._by_version: dict[PolicyRef, VersionJobs] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._begun

    def jobs(self) -> list[Job]:
        """All jobs that are not done."""
        return [*self._waiting, *self._begun.values()]

    def writing(self) -> list[tuple[str, int]]:
        """The session of every job that writes, and tokens so far."""
        return [
            (job.request.session, int(self._slots.written[slot]))
            for slot, job in self._begun.items()
            if job.state == "writing"
        ]

    def load(self) -> tuple[int, int]:
        """Jobs that have begun, and jobs that wait."""
        return len(self._begun), len(self._waiting)

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
        """Compute one batch: in one pass for all versions that can share it, in others for the rest."""
        self._admit()
        readings: dict[PolicyRef, list[Reading]] = {}
        for reading in self._prompts.choose(self._prefill_tokens):
            readings.setdefault(reading.job.request.policy, []).append(reading)
        groups: dict[int, list[Part]] = {}
        for policy, jobs in self._by_version.items():
            if policy in readings or len(jobs.writing):
                part = Part(version=jobs.version, writing=jobs.writing, readings=readings.get(policy, ()))
                groups.setdefault(jobs.version.group, []).append(part)
        for parts in groups.values():
            self._compute(parts)

    # Beginning

    def _admit(self) -> None:
        """Begin jobs in the order they came, passing over those for which another computes. When one finds no room,
        those behind it wait too: else a long one might wait for ever."""
        passed_over: list[Job] = []
        try:
            while self._waiting and self._slots.free:
                begins = self._try_to_begin(self._waiting[0])
                job = self._waiting.popleft()
                if begins == "wait":
                    passed_over.append(job)
                elif begins == "no room":
                    self._waiting.appendleft(job)
                    break
        finally:
            self._waiting.extendleft(reversed(passed_over))

    def _try_to_begin(self, job: Job) -> Begins:
        """Begin a job, or tell it why that cannot be."""
        try:
            jobs = self._jobs_of(job.request.policy)
        except PolicyError as error:
            job.state = "done"
            job.done(error)
            return "begun"
        leader = self._prompts.leader_of(job)
        begins = self._find_room(job, leader)
        if begins == "begun":
            self._open(job, jobs, leader)
        self._close_if_empty(jobs)
        return begins

    def _find_room(self, job: Job, leader: Job | None) -> Begins:
        if leader is not None:
            return "begun" if self._admission.follow(job, leader) else "no room"
        known = self._admission.look_up(job)
        if self._prompts.is_coming(job):
            return "wait"
        # A job that nothing runs beside must get its room, or it would wait for ever.
        return "begun" if self._admission.begin(job, known, beyond=not self._begun) else "no room"

    def _open(self, job: Job, jobs: VersionJobs, leader: Job | None) -> None:
        job.slot = self._slots.open(job.request, job.blocks)
        self._extras.open(job.slot, job.request)
        self._begun[job.slot] = job
        jobs.count += 1
        if leader is None:
            self._prompts.read(job)
        else:
            self._prompts.follow(job, leader)
        self._counters.prompt_tokens += len(job.prompt)
        self._counters.reused_tokens += job.computed if leader is None else len(job.prompt)

    # Computing

    def _compute(self, parts: Sequence[Part]) -> None:
        now = make_pass(self._slots, parts)
        logits, hidden = self._model.forward(now.rows)
        for part in parts:
            for reading in part.readings:
                ready = [job.slot for job in self._prompts.advance(reading)]
                jobs = self._by_version[part.version.policy]
                jobs.writing = np.append(jobs.writing, np.array(ready, np.int64))
        if len(now.slots):
            self._draw(now, logits, _values(parts, now.rows, hidden))

    def _draw(self, now: Pass, logits: Tensor, values: NDArray[np.float32] | None) -> None:
        if now.sources is not None:
            logits = logits[now.sources]
            values = None if values is None else values[now.sources]
        tokens, logps = self._extras.draw(self._model.draw, logits, self._slots.draws(now.slots), now.slots)
        complete = self._slots.record(now.slots, tokens, logps, values)
        if self._extras.has_stops:
            complete |= np.array([self._extras.ended(slot, self._slots.so_far(slot)) for slot in now.slots.tolist()])
        self._counters.sampled_tokens += len(tokens)
        for slot in now.slots[complete | ~np.isfinite(logps)].tolist():
            self._finish(self._begun[slot])

    # Ending

    def _finish(self, job: Job) -> None:
        slots, slot = self._slots, job.slot
        count = int(slots.written[slot])
        tokens, logps = slots.out_tokens[slot, :count].copy(), slots.out_logps[slot, :count].copy()
        values = slots.out_values[slot, :count].copy()
        finish: Finish = "stop" if slots.stopped(slot) or self._extras.ended(slot, tokens) else "length"
        self._leave(job)
        if not np.isfinite(logps).all():
            self._admission.abandon(job)
            job.done(PolicyError(f"{job.request.policy} gives log-probabilities that are not finite numbers"))
            return
        self._admission.end(job, tokens)
        job.done(Completion(tokens=tokens, logps=logps, values=values, policy=job.request.policy, finish=finish))

    def _leave(self, job: Job) -> None:
        """Take a job that has begun out of everything but its blocks."""
        jobs = self._by_version[job.request.policy]
        if job.state == "writing":
            jobs.writing = jobs.writing[jobs.writing != job.slot]
        else:
            self._prompts.leave(job)
        job.state = "done"
        del self._begun[job.slot]
        self._slots.close(job.slot)
        self._extras.close(job.slot)
        jobs.count -= 1
        self._close_if_empty(jobs)

    def _jobs_of(self, policy: PolicyRef) -> VersionJobs:
        if policy not in self._by_version:
            self._by_version[policy] = VersionJobs(version=self._versions.acquire(policy))
        return self._by_version[policy]

    def _close_if_empty(self, jobs: VersionJobs) -> None:
        if not jobs.count:
            del self._by_version[jobs.version.policy]
            self._versions.release(jobs.version.policy)


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
