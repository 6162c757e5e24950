"""Jobs, and their blocks: what of their prompts is in the cache already, and what they may write.

Invariant: a job that has begun has all blocks it may ever need, so it always ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ludus.inference.local.block_pool import BlockPool, Kept, Key, Sessions
from ludus.inference.protocol import Completion, Request
from ludus.lm.kv_cache import BLOCK, KvCache
from ludus.records import PolicyRef

State = Literal["waiting", "reading", "following", "writing", "done"]


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One request on its way through the engine: waiting, reading its prompt (or following one that reads the same),
    writing, done."""

    request: Request
    prompt: NDArray[np.int32]
    done: Callable[[Completion | Exception], None]
    """Called once, with the completion or with what went wrong; not if the job is cancelled."""
    state: State = "waiting"
    slot: int = -1
    blocks: list[int] = field(default_factory=list)
    """Its own and shared ones, in order."""
    computed: int = 0
    """Tokens of the prompt whose keys and values are in the cache."""
    known: int = 0
    """Full blocks of it that can be found."""
    name: int = 0
    """What the block after those refers to."""
    goes_on: bool = False
    """Whether it goes on from what its session kept."""
    followers: list[Job] = field(default_factory=list)
    """Jobs with the same prompt that wait for this one to compute it."""
    leader: Job | None = None
    """The job that this one follows."""

    @property
    def need(self) -> int:
        """Blocks that hold all it may write. The last token drawn is never stored."""
        return -(-(len(self.prompt) + self.request.sampling.max_tokens - 1) // BLOCK)

    def next_key(self) -> Key | None:
        """The next full block of the prompt that can be found once it is computed."""
        if self.goes_on:
            return None
        start = self.known * BLOCK
        tokens = self.prompt[start : start + BLOCK]
        return (self.name, tokens.tobytes()) if len(tokens) == BLOCK else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Tokens of a prompt that are computed in this pass."""

    job: Job
    stop: int
    """The first token after them."""

    @property
    def is_last(self) -> bool:
        """Whether the prompt is computed after this."""
        return self.stop == len(self.job.prompt)


class Admission:
    """Gives jobs their blocks and takes them back."""

    def __init__(self, cache: KvCache, pool: BlockPool, sessions: Sessions, *, reuse: bool = True) -> None:
        self._cache = cache
        self._pool = pool
        self._sessions = sessions
        self._reuse = reuse

    def look_up(self, job: Job) -> list[int]:
        """Blocks that hold the beginning of a job's prompt. Its last token is always computed: the first token to be
        drawn needs what comes out of it."""
        known, job.name = self._pool.find(job.request.policy, job.prompt[:-1])
        job.known = len(known)
        return known

    def begin(self, job: Job, known: list[int], *, beyond: bool) -> bool:
        """Give a job its blocks, reusing what is known or what its session kept; False if there is no room.

        Args:
            job: as `look_up` left it.
            known: what `look_up` found.
            beyond: whether to make room past the limit.
        """
        kept = self._take_kept(job)
        if kept is None:
            self._pool.share(known)
            job.blocks, job.computed = list(known), len(known) * BLOCK
        else:
            self._go_on(job, kept)
        return self._fill_up(job, beyond)

    def follow(self, job: Job, leader: Job) -> bool:
        """Give a job its blocks, those that the leader's whole prompt fills shared with it; False without room."""
        job.blocks = leader.blocks[: len(job.prompt) // BLOCK]
        self._pool.share(job.blocks)
        return self._fill_up(job, beyond=False)

    def catch_up(self, job: Job, leader: Job) -> None:
        """Give a follower the rest of its leader's prompt, which is computed now."""
        full, rest = divmod(len(job.prompt), BLOCK)
        if rest:
            self._cache.copy(leader.blocks[full], job.blocks[full])
        job.computed, job.known, job.name = leader.computed, leader.known, leader.name

    def inherit(self, job: Job, leader: Job) -> None:
        """Let a follower go on where its leader stopped reading: with the blocks that both have."""
        shared = len(job.prompt) // BLOCK * BLOCK
        job.computed, job.known, job.name = min(leader.computed, shared), leader.known, leader.name

    def remember(self, job: Job, stored: NDArray[np.int32]) -> None:
        """Let others find the full blocks of a job, which hold the tokens `stored`. What a session says after its
        first prompt is its own: nobody else would ask for it, and it would fill the cache."""
        while self._reuse and not job.goes_on and (job.known + 1) * BLOCK <= len(stored):
            start = job.known * BLOCK
            job.name = self._pool.remember(job.name, stored[start : start + BLOCK], job.blocks[job.known])
            job.known += 1

    def end(self, job: Job, written: NDArray[np.int32]) -> None:
        """Take a job's blocks back, or leave them with its session. `written` are the tokens drawn."""
        request = job.request
        stored = np.concatenate([job.prompt, written[:-1]])
        if request.is_last or not request.session or not self._reuse:
            if not request.is_last:
                self.remember(job, stored)
            self.abandon(job)
            return
        used = -(-len(stored) // BLOCK)
        self._pool.release(job.blocks[used:])
        self._sessions.keep(request.session, Kept(policy=request.policy, tokens=stored, blocks=job.blocks[:used]))
        job.blocks = []

    def abandon(self, job: Job) -> None:
        """Take a job's blocks back."""
        self._pool.release(job.blocks)
        job.blocks = []

    def _take_kept(self, job: Job) -> Kept | None:
        """What the session kept, if it is more than is known anyway."""
        kept = self._sessions.take(job.request.session) if job.request.session else None
        if kept is None:
            return None
        if kept.policy != job.request.policy or kept.shared_with(job.prompt[:-1]) <= job.known * BLOCK:
            self._pool.release(kept.blocks)
            return None
        return kept

    def _go_on(self, job: Job, kept: Kept) -> None:
        """Take over the blocks that hold the common beginning. The last one counts only if it may be written on."""
        shared = kept.shared_with(job.prompt[:-1])
        full, rest = divmod(shared, BLOCK)
        if rest and self._pool.is_private(kept.blocks[full]):
            count, job.computed = full + 1, shared
        else:
            count, job.computed = full, full * BLOCK
        job.blocks, job.goes_on = kept.blocks[:count], True
        self._pool.release(kept.blocks[count:])

    def _fill_up(self, job: Job, beyond: bool) -> bool:
        missing = job.need - len(job.blocks)
        fresh = self._pool.take(missing)
        while fresh is None and self._sessions.drop_oldest():
            fresh = self._pool.take(missing)
        if fresh is None and beyond:
            fresh = self._pool.take(missing, beyond=True)
        if fresh is None:
            self.abandon(job)
            job.computed, job.goes_on = 0, False
            return False
        job.blocks = job.blocks + fresh
        return True


class Prompts:
    """Prompts that are being computed: in which order, by which job, and for which others.

    A job that reads a prompt has followers: jobs with the same prompt, which get what it computes. Jobs whose prompt
    begins like one that is being read had better wait until that beginning can be found. A prompt is read by one job at
    a time, the oldest first; if that job is given up, a follower goes on.
    """

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
        """The next chunks of prompts, the oldest first, up to `budget` tokens."""
        readings = []
        for job in self._reading:
            if budget <= 0:
                break
            stop = min(len(job.prompt), job.computed + budget)
            budget -= stop - job.computed
            readings.append(Reading(job=job, stop=stop))
        return readings

    def advance(self, reading: Reading) -> list[Job]:
        """A chunk is computed; returns the jobs whose prompt is whole now."""
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
