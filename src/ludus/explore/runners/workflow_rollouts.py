"""Attempts the tasks of one taskset, through its workflow and for its rewards.

A workflow that raises, hangs, or whose reward fails costs its own episode; one that failed for another reason than its
reward is tried again as often as its config says. One that the engine interrupts by being out of reach begins again.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict

from ludus.errors import RewardError, RolloutError, TimeoutExceeded
from ludus.explore.players.endpoints import Counts
from ludus.explore.runners.language_runner import Finished
from ludus.explore.runners.workflow_episode import WorkflowEpisode
from ludus.inference.policy_sampler import PolicySampler
from ludus.inference.protocol import Sampling
from ludus.records import Task, episode_id
from ludus.rewards.rewards import Rewards
from ludus.workflows.protocol import Workflow


class WorkflowRollouts:
    """Makes attempts, any number at once."""

    def __init__(
        self,
        *,
        run: str,
        workflow: Workflow,
        sampler: PolicySampler,
        sampling: Sampling,
        rewards: Rewards | None = None,
        by_turn: bool = False,
        retries: int = 0,
        deadline_s: float = math.inf,
    ) -> None:
        """
        Args:
            workflow: how tasks are attempted; it is closed with this, and so are the rewards.
            rewards: what scores responses that the workflow does not reward itself.
            by_turn: whether every reply is a training sequence.
            retries: how often a failed attempt is made again.
            deadline_s: of one attempt, its reward included.
        """
        self._run = run
        self.workflow = workflow
        self._sampler = sampler
        self._sampling = sampling
        self._rewards = rewards
        self._by_turn = by_turn
        self._retries = retries
        self._deadline_s = deadline_s
        self._counts: defaultdict[str, float] = defaultdict(float)
        self.has_turns = by_turn or workflow.many_chats

    def take_counts(self) -> Counts:
        """What has been done since the last call, by name of the metric: by rewards, and `workflow/attempts`,
        `.../retries`, `.../timeouts`, `.../failed` and `workflow/metrics/<name>/sum` and `count`."""
        counts, self._counts = self._counts, defaultdict(float)
        rewards = {} if self._rewards is None else self._rewards.take_counts()
        return {**rewards, **{f"workflow/{name}": value for name, value in sorted(counts.items())}}

    async def close(self) -> None:
        """Give back the workflow and the rewards."""
        await self.workflow.close()
        if self._rewards is not None:
            await self._rewards.close()

    async def play(self, task: Task) -> Finished:
        """One episode, whatever happens to it; raises `Interrupted` when it is to begin again."""
        began = time.monotonic()
        for retry in range(self._retries + 1):
            made = WorkflowEpisode(
                task,
                episode_id(self._run, task.id, task.attempt),
                self.workflow,
                self._sampler,
                sampling=self._sampling,
                rewards=self._rewards,
                retry=retry,
                began=began,
            )
            try:
                await made.run(limit_s=self._deadline_s, mark=self._sampler.pulse.working_on)
            except RolloutError as error:
                # A response that no reward can be found for is not asked for again: others would be favoured.
                is_final = isinstance(error, RewardError) or retry == self._retries
                self._counts["attempts"] += 1
                self._counts["failed" if is_final else "retries"] += 1
                self._counts["timeouts"] += isinstance(error, TimeoutExceeded)
                if is_final:
                    made.failure = error
                    return Finished(episode=made.finish(f"{type(error).__name__}: {error}"), attempt=made)
            else:
                self._count(made)
                episode = made.finish()
                rows = made.rows(episode, by_turn=self._by_turn) if task.seats[0].learns else ()
                return Finished(episode=episode, rows=rows, attempt=made)
        raise AssertionError("a loop of at least one round has ended without a result")

    def _count(self, made: WorkflowEpisode) -> None:
        self._counts["attempts"] += 1
        for name, value in made.outcome.metrics.items():
            self._counts[f"metrics/{name}/sum"] += value
            self._counts[f"metrics/{name}/count"] += 1
