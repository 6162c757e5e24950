"""Attempts many tasks at once through one workflow: a coroutine each, over one engine, in one event loop.

The same face as the text runner. A workflow that raises, hangs, or whose reward fails costs its own episode and frees
its slot; one that failed for another reason than its reward is tried again as often as its config says. One that the
engine interrupts by being out of reach begins again.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable

from ludus.config import ExploreConfig, PromptConfig, SamplingConfig
from ludus.errors import RewardError, RolloutError, TimeoutExceeded
from ludus.explore.players.endpoints import Counts, Endpoints
from ludus.explore.runners.conversation_rows import gather_rows
from ludus.explore.runners.in_flight import InFlight
from ludus.explore.runners.workflow_episode import WorkflowEpisode
from ludus.inference.conversation import Chat
from ludus.inference.outage import Outage
from ludus.inference.policy_voice import PolicyVoice
from ludus.inference.protocol import Engine
from ludus.records import Episode, EpisodeBatch, Task, episode_id
from ludus.rewards.rewards import Rewards
from ludus.runtime import Pulse
from ludus.workflows.protocol import Workflow
from ludus.workflows.rollout_model import Voice

Finished = tuple[WorkflowEpisode, Episode]


class WorkflowRunner:
    """Keeps up to `slots` attempts in flight."""

    def __init__(
        self,
        *,
        run: str,
        workflow: Workflow,
        engine: Engine,
        chat: Chat,
        context: int,
        prompt: PromptConfig,
        sampling: SamplingConfig,
        slots: int,
        rewards: Rewards | None = None,
        max_tokens: int | None = None,
        retries: int = 0,
        deadline_s: float = math.inf,
        patience_s: float = 0.0,
        pulse: Pulse | None = None,
        endpoints: Endpoints | None = None,
    ) -> None:
        """
        Args:
            workflow: how tasks are attempted; it is closed with the runner, and so are engine, rewards and endpoints.
            context: tokens that a conversation may have.
            rewards: what scores responses that the workflow does not reward itself.
            max_tokens: of a reply, where it is not what `sampling` says.
            retries: how often a failed attempt is made again.
            deadline_s: of one attempt, its reward included.
            patience_s: how long the engine may be out of reach.
        """
        self._run = run
        self._workflow = workflow
        self._rewards = rewards
        self._retries = retries
        self._deadline_s = deadline_s
        self._by_turn = prompt.rows == "turn"
        self._outage = Outage(patience_s)
        self._pulse = pulse or Pulse()
        self._policy = PolicyVoice(
            engine, sampling, stop_tokens=chat.stop_tokens, outage=self._outage, pulse=self._pulse
        )
        self._voice = Voice(
            policy=self._policy, format=chat, context=context, max_tokens=max_tokens or sampling.max_tokens
        )
        self._endpoints = endpoints or Endpoints(ExploreConfig())
        self._counts: defaultdict[str, float] = defaultdict(float)
        self.slots = slots
        self._flight: InFlight[Finished] = InFlight(self._play, slots=slots, outage=self._outage, pulse=self._pulse)

    @property
    def trouble(self) -> str:
        """Why the engine cannot be reached now; empty while it can."""
        return self._outage.reason

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to attempt."""
        return self._flight.is_idle

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return self._flight.finished

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        self._flight.submit(tasks)

    def step(self) -> None:
        """Go on until an attempt ends, or for a moment.

        Raises:
            EngineLost: the engine has been out of reach for too long.
        """
        self._flight.step()

    def take_finished(self) -> list[Finished]:
        """What has finished since the last call, with all that is known of it; failed attempts, too."""
        return self._flight.take()

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        finished = self.take_finished()
        rows = [
            row
            for made, episode in finished
            if not episode.error and episode.task.seats[0].learns
            for row in made.rows(episode, by_turn=self._by_turn)
        ]
        return EpisodeBatch(
            episodes=tuple(episode for _, episode in finished),
            experiences=gather_rows(rows, has_turns=self._by_turn or self._workflow.many_chats),
        )

    def take_counts(self) -> Counts:
        """What has been done since the last call, by name of the metric: by endpoints, by rewards, and
        `workflow/attempts`, `.../retries`, `.../timeouts`, `.../failed` and `workflow/metrics/<name>/sum` and `count`.
        """
        counts, self._counts = self._counts, defaultdict(float)
        rewards = {} if self._rewards is None else self._rewards.take_counts()
        return {**self._endpoints.take_counts(), **rewards, **{f"workflow/{n}": v for n, v in sorted(counts.items())}}

    def close(self) -> None:
        """Give up what is in flight, and give back everything. Closing again changes nothing."""
        self._flight.close(self._give_back)

    async def _give_back(self) -> None:
        await self._workflow.close()
        if self._rewards is not None:
            await self._rewards.close()
        await self._endpoints.close()
        await self._policy.engine.close()

    # -- one task --------------------------------------------------------------------------------------------------

    async def _play(self, task: Task) -> Finished:
        """One episode, whatever happens to it; raises `Interrupted` when it is to begin again."""
        began = time.monotonic()
        for retry in range(self._retries + 1):
            made = WorkflowEpisode(
                task,
                episode_id(self._run, task.id, task.attempt),
                self._workflow,
                self._voice,
                rewards=self._rewards,
                retry=retry,
                mark=self._pulse.working_on,
                began=began,
            )
            try:
                await made.run(limit_s=self._deadline_s)
            except RolloutError as error:
                # A response that no reward can be found for is not asked for again: others would be favoured.
                is_final = isinstance(error, RewardError) or retry == self._retries
                self._count_failure(error, is_final=is_final)
                if is_final:
                    made.failure = error
                    return made, made.finish(f"{type(error).__name__}: {error}")
            else:
                self._count(made)
                return made, made.finish()
        raise AssertionError("a loop of at least one round has ended without a result")

    def _count(self, made: WorkflowEpisode) -> None:
        self._counts["attempts"] += 1
        for name, value in made.outcome.metrics.items():
            self._counts[f"metrics/{name}/sum"] += value
            self._counts[f"metrics/{name}/count"] += 1

    def _count_failure(self, error: RolloutError, *, is_final: bool) -> None:
        self._counts["attempts"] += 1
        self._counts["failed" if is_final else "retries"] += 1
        self._counts["timeouts"] += isinstance(error, TimeoutExceeded)
