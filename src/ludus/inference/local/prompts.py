"""Prompts that are being computed: in which order, by whom, and for whom else.

A job that reads a prompt has followers: jobs with the same prompt, which get what it computes. Jobs whose prompt begins
like one that is being read had better wait until that beginning can be found.

Invariant: a prompt is read by one job at a time, the oldest first; if that job is given up, a follower goes on.
"""

from __future__ import annotations

from ludus.inference.local.admission import Admission, Job
from ludus.inference.local.block_pool import Key
from ludus.inference.local.passes import Reading
from ludus.records import PolicyRef


class Prompts:
    """Jobs that read, and those that follow them."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._reading: list[Job] = []
        self._leaders: dict[tuple[PolicyRef, bytes], Job] = {}
        self._coming: dict[Key, Job] = {}

    def leader_of(self, job: Job) -> Job | None:
        """The job that reads the same prompt."""
        return self._leaders.get(_prompt_key(job))

    def is_coming(self, job: Job) -> bool:
        """Whether the next block of a job's prompt is being computed by another."""
        return job.next_key() in self._coming

    def read(self, job: Job) -> None:
        """Let a job read its prompt."""
        self._reading.append(job)
        self._lead(job)

    def follow(self, job: Job, leader: Job) -> None:
        """Let a job get what another reads."""
        job.state, job.leader = "following", leader
        leader.followers.append(job)

    def choose(self, budget: int) -> list[Reading]:
        """The next stretches of prompts, the oldest first, up to `budget` tokens."""
        readings = []
        for job in self._reading:
            if budget <= 0:
                break
            stop = min(len(job.prompt), job.computed + budget)
            budget -= stop - job.computed
            readings.append(Reading(job=job, stop=stop))
        return readings

    def advance(self, reading: Reading) -> list[Job]:
        """A stretch is computed; returns the jobs whose prompt is whole now."""
        job = reading.job
        self._retract(job)
        job.computed = reading.stop
        self._admission.remember(job, job.prompt[: job.computed])
        if not reading.is_last:
            self._announce(job)
            return []
        self._reading.remove(job)
        del self._leaders[_prompt_key(job)]
        ready, job.followers = [job, *job.followers], []
        for follower in ready[1:]:
            self._admission.catch_up(follower, job)
            follower.leader = None
        for one in ready:
            one.state = "writing"
        return ready

    def leave(self, job: Job) -> None:
        """A job that reads or follows is given up."""
        if job.leader is not None:
            job.leader.followers.remove(job)
            return
        self._retract(job)
        del self._leaders[_prompt_key(job)]
        place = self._reading.index(job)
        self._reading[place : place + 1] = self._heirs(job)

    def _heirs(self, job: Job) -> list[Job]:
        """The follower that takes over, if there is one."""
        if not job.followers:
            return []
        heir, *others = job.followers
        self._admission.inherit(heir, job)
        heir.leader, heir.followers = None, others
        for other in others:
            other.leader = heir
        self._lead(heir)
        return [heir]

    def _lead(self, job: Job) -> None:
        job.state = "reading"
        self._leaders[_prompt_key(job)] = job
        self._announce(job)

    def _announce(self, job: Job) -> None:
        key = job.next_key()
        if key is not None:
            self._coming.setdefault(key, job)

    def _retract(self, job: Job) -> None:
        key = job.next_key()
        if key is not None and self._coming.get(key) is job:
            del self._coming[key]


def _prompt_key(job: Job) -> tuple[PolicyRef, bytes]:
    return job.request.policy, job.prompt.tobytes()
