"""One attempt at one task through a workflow: from the first word to the reward.

Invariant: an attempt that ended well has a finite total reward, and its replies have it: what the whole is worth stands
on the last sampled token of every chat, since the chats are one attempt and are compared with other attempts as such;
step rewards stand on the replies they were given for.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from math import fsum
from typing import Any

import numpy as np

from ludus.errors import EnvError, PolicyError, RewardError, RolloutError, TimeoutExceeded
from ludus.explore.players.endpoints import Counts
from ludus.explore.runners.assembly import conversation_rows
from ludus.explore.runners.bounded_work import BoundedWork
from ludus.explore.runners.language_runner import Finished
from ludus.http.token_text import TokenText, token_text
from ludus.inference.conversation import Columns, Conversation
from ludus.inference.policy_sampler import PolicySampler
from ludus.inference.protocol import Sampling
from ludus.records import Episode, EpisodeId, Task, derive_seed, episode_id
from ludus.rewards.attempt import check_value
from ludus.rewards.rewards import Rewards, Scored
from ludus.workflows.protocol import Outcome, Workflow, as_outcome, whole_text
from ludus.workflows.rollout_model import RolloutModel

OWN_REWARD, STEP_REWARDS = "workflow", "steps"
"""Names of what the workflow itself gave, among the parts of a reward."""


class WorkflowEpisode:
    """An attempt in flight. `run` makes it; afterwards `finish` and `model` have what there is to know."""

    def __init__(
        self,
        task: Task,
        id: EpisodeId,
        workflow: Workflow,
        sampler: PolicySampler,
        *,
        sampling: Sampling,
        rewards: Rewards | None,
        retry: int,
        began: float,
    ) -> None:
        """`began` is when the first try began, by `time.monotonic`."""
        self.task = task
        self.id = id
        self.outcome = Outcome()
        self.scored: Scored | None = None
        """What the run's rewards said last."""
        self.failure: RolloutError | None = None
        """Why it failed, if it did."""
        self._workflow = workflow
        self._rewards = rewards
        self._began = began
        self._parts: dict[str, float] = {}
        self._total = 0.0
        self._work: BoundedWork[None] | None = None
        self.model = RolloutModel(
            task,
            id,
            sampler,
            sampling=sampling,
            retry=retry,
            many_chats=workflow.many_chats,
            score=None if rewards is None else self._score,
            on_trouble=self._stop,
        )

    async def run(self, *, limit_s: float, mark: Callable[[int], None]) -> None:
        """Attempt the task and find its reward. `mark` notes whose code runs.

        Raises:
            Interrupted: the engine is out of reach; the task is to begin again.
            EngineLost: it has been for too long.
            RolloutError: the workflow, the policy or a reward failed.
        """
        self._work = BoundedWork(self._attempt(), what="the workflow", task=self.task.id, mark=mark)
        try:
            await self._work.result(limit_s)
        except BaseException:
            # Whatever the workflow made of it: an attempt that the engine interrupted is none.
            if self.model.trouble is not None:
                raise self.model.trouble from None
            raise
        finally:
            self.model.close()
        if self.model.trouble is not None:
            raise self.model.trouble

    def finish(self, error: str = "") -> Episode:
        """The episode as a record."""
        said = self.model.said
        return Episode(
            id=self.id,
            task=self.task,
            returns=(0.0 if error else self._total,) * len(self.task.seats),
            move_plies=np.arange(len(said), dtype=np.int32),
            move_seats=np.zeros(len(said), np.int16),
            move_actions=np.ones(len(said), np.int32),
            move_texts=tuple(whole_text(reply.heard) for reply in said),
            replies=tuple(whole_text(reply.text) for reply in said),
            rewards={} if error else self._parts,
            truncated=self.outcome.truncated,
            error=error,
            duration_s=time.monotonic() - self._began,
        )

    # -- the attempt -----------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        if self._work is not None:
            self._work.stop()

    async def _attempt(self) -> None:
        returned = await self._workflow.run(self.task, self.model)
        said = self.model.said
        if not said:
            raise PolicyError("the workflow ended without a reply of the policy, so there is nothing to learn from")
        self.outcome = as_outcome(returned, last_reply=said[-1].text, replies=len(said))
        await self._settle()

    async def _settle(self) -> None:
        """Find out what the attempt is worth and give it to the replies."""
        outcome, parts = self.outcome, self._parts
        whole = 0.0
        if outcome.reward is not None:
            parts.update(self.scored.parts if self.scored is not None else {})
            whole = parts[OWN_REWARD] = outcome.reward
        elif self._rewards is not None:
            scored = await self._score(outcome.response)
            whole = scored.total
            parts.update(scored.parts)
        elif not outcome.step_rewards:
            raise RewardError("the workflow gave no reward and the run has none; give it some under rewards")
        if outcome.step_rewards:
            parts[STEP_REWARDS] = fsum(outcome.step_rewards)
        self._total = check_value(whole + parts.get(STEP_REWARDS, 0.0))
        for reply, reward in zip(self.model.said, outcome.step_rewards, strict=False):
            self.model.chats[reply.chat].conversation.replies[reply.reply].reward += reward
        for chat in self.model.chats:
            chat.conversation.credit(whole)

    async def _score(self, response: str) -> Scored:
        if self._rewards is None:
            raise EnvError("the run has no rewards")
        task, sampled = self.task, sum(chat.conversation.sampled for chat in self.model.chats)
        seed = derive_seed(task.seed, "reward", task.attempt)
        self.scored = await self._rewards.score(task, response, seed=seed, tokens=sampled)
        return self.scored


class WorkflowRollouts:
    """Attempts the tasks of one taskset, any number at once, through its workflow and for its rewards.

    A workflow that raises, hangs, or whose reward fails costs its own episode; one that failed for another reason than
    its reward is tried again as often as its config says.
    """

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
        self.run = run
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
                episode_id(self.run, task.id, task.attempt),
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
                self._counts["attempts"] += 1
                for name, value in made.outcome.metrics.items():
                    self._counts[f"metrics/{name}/sum"] += value
                    self._counts[f"metrics/{name}/count"] += 1
                episode = made.finish()
                said = [chat.conversation for chat in made.model.chats if task.seats[0].learns]
                rows = conversation_rows(episode, 0, said, by_turn=self._by_turn)
                return Finished(episode=episode, rows=rows, attempt=made)
        raise AssertionError("a loop of at least one round has ended without a result")


def trace(made: WorkflowEpisode, episode: Episode) -> dict[str, Any]:
    """Everything that is known of an attempt, as JSON: its task, its chats token by token, and its rewards.

    Of a token: its `id`, what it spells (`text`), whether the policy sampled it (`mask`), and if so its `logp`, the
    `version` that sampled it and the `reward` that stands on it.
    """
    text = token_text(made.model.template)
    inputs = {name: value for name, value in episode.task.inputs.items() if name != "group_seed"}
    return {
        "episode": episode.id,
        "task": {"id": episode.task.id, "set": episode.task.game, "seed": episode.task.seed, "inputs": inputs},
        "policy": str(made.model.policy),
        "turns": [{"chat": reply.chat, "heard": reply.heard, "said": reply.text} for reply in made.model.said],
        "chats": [_tokens(chat.conversation, text) for chat in made.model.chats],
        "response": made.outcome.response,
        "rewards": dict(episode.rewards),
        "notes": {} if made.scored is None else made.scored.notes,
        "total": episode.returns[0],
        "metrics": dict(made.outcome.metrics),
        "truncated": episode.truncated,
        "error": episode.error,
        "duration_s": episode.duration_s,
    }


def _tokens(conversation: Conversation, text: TokenText) -> list[dict[str, Any]]:
    columns = conversation.as_episode() if conversation.replies else _unsaid(conversation)
    return [_token(columns, place, text) for place in range(len(columns["action"]))]


def _unsaid(conversation: Conversation) -> Columns:
    """What was heard, and never replied to."""
    heard = np.array(conversation.prompt, np.int32)
    return {"action": heard, "mask": np.zeros(len(heard), np.bool_), "reward": np.zeros(len(heard), np.float32)}


def _token(columns: Columns, place: int, text: TokenText) -> dict[str, Any]:
    id, is_sampled = int(columns["action"][place]), bool(columns["mask"][place])
    shown = {"id": id, "text": text.describe(id, 0.0)["token"], "mask": is_sampled}
    if not is_sampled:
        return shown
    return {
        **shown,
        "logp": float(columns["logp"][place]),
        "version": int(columns["version"][place]),
        "reward": float(columns["reward"][place]),
    }
