"""`check_reward` and `check_workflow`: your own rewards and workflows, with ordinary and with hostile replies.

Covered by `check_reward`: the value (a finite number of ordinary size), repetition, independence of the order of
attempts, the task's fields left alone, no exception for anything that a model may write, time. By `check_workflow`,
which needs no model: an outcome for whatever a policy may say, repetition, independence of what else is attempted at
the same time, the task's fields left alone, time. Not covered: whether a reward or an outcome is any good.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ludus.errors import RewardError
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.explore.runners.workflow_episode import WorkflowRollouts
from ludus.inference.openai.wire import MessageFormat
from ludus.inference.policy_sampler import PolicySampler
from ludus.inference.protocol import Completion, EngineCounters, Request, Sampling
from ludus.records import Episode, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.rewards.attempt import Attempt, Instant, Mark
from ludus.rewards.registry import RewardFunction
from ludus.rewards.rewards import Part, Rewards
from ludus.rewards.worker import call_reward
from ludus.testing.conformance import ConformanceError, require
from ludus.workflows.protocol import CustomWorkflow

CONTEXT = 65_536
POLICY = PolicyRef(name=PolicyName("main"))
Say = Callable[[list[dict[str, str]]], str]
"""What the policy replies to a conversation, given as messages."""
HOSTILE = (
    "",
    " \n\t ",
    "\x00\x1b[31m\ud800",
    "answer: " + "9" * 5_000,
    "9**9**9**9",
    "1e999999999",
    "nan",
    "__import__('os').system('true')",
    "().__class__.__base__.__subclasses__()",
    "\\boxed{" * 2_000,
    "(" * 5_000,
    "<think>" * 2_000,
    "`" * 10_000,
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" * 500,
    "🙂" * 10_000,
)
"""What models write, sooner or later."""


def check_reward(function: RewardFunction, attempts: Sequence[Attempt], *, limit_s: float = 5.0) -> None:
    """Check a reward with attempts at tasks like yours; raise `ConformanceError` naming the promise that it breaks.

    Each attempt is also made with responses that no one would hope for. `limit_s` is for one call.
    """
    require(callable(function), "a reward is a function of an attempt")
    require(bool(attempts), "a reward is checked with at least one attempt at a task like yours")
    spoilt = [replace(attempt, response=response) for attempt in attempts for response in HOSTILE]
    every = [*attempts, *spoilt]
    values = [_value(function, attempt, limit_s) for attempt in every]
    again = [_value(function, attempt, limit_s) for attempt in reversed(every)][::-1]
    for attempt, first, second in zip(every, values, again, strict=True):
        require(
            first == second,
            f"the same attempt has the same reward, in any order; {_response(attempt)} had {first!r}, then {second!r}",
        )


def _value(function: RewardFunction, attempt: Attempt, limit_s: float) -> float:
    before = copy.deepcopy((dict(attempt.inputs), dict(attempt.options)))
    start = time.monotonic()
    try:
        value = call_reward(function, attempt).value
    except RewardError as error:
        raise ConformanceError(f"every response has a reward; for {_response(attempt)}: {error}") from error
    took_s = time.monotonic() - start
    require(took_s <= limit_s, f"a reward takes at most {limit_s:g} s; {_response(attempt)} took {took_s:.1f} s")
    require((dict(attempt.inputs), dict(attempt.options)) == before, "a reward leaves the task and its options alone")
    return value


def _response(attempt: Attempt) -> str:
    return f"the response {attempt.response[:40]!r}"


def check_workflow(
    workflow: Callable[..., Any],
    tasks: Sequence[Mapping[str, Any]],
    say: Say,
    *,
    options: Mapping[str, Any] | None = None,
    limit_s: float = 10.0,
) -> list[Episode]:
    """Check a workflow; raise `ConformanceError` naming the promise that it breaks.

    Args:
        workflow: As `register_workflow` takes it.
        tasks: The fields of tasks like yours.
        say: What the policy replies; each task is also attempted with replies that no one would hope for.
        options: Those of the config.
        limit_s: Of one attempt.

    Returns:
        What became of each task. Its reward is the workflow's own, or 0 for what the run's rewards would score.
    """
    require(bool(tasks), "a workflow is checked with at least one task like yours")
    made = CustomWorkflow("checked", workflow, options or {})
    together = _attempt(made, tasks, say, slots=len(tasks), limit_s=limit_s)
    alone = _attempt(made, tasks, say, slots=1, limit_s=limit_s)
    for first, second in zip(together, alone, strict=True):
        same = (first.replies, first.returns, first.error) == (second.replies, second.returns, second.error)
        require(same, f"the same attempt comes to the same, whatever else is going on; {_shown(first)} did not")
        require(not first.error, f"an attempt has an outcome; {_shown(first)}: {first.error}")
    for reply in HOSTILE:
        for episode in _attempt(made, tasks, lambda messages, reply=reply: reply, slots=1, limit_s=limit_s):  # type: ignore[misc]
            why = f"for {_shown(episode)} and the reply {reply[:40]!r}: {episode.error}"
            require(not episode.error, f"an attempt has an outcome whatever the policy says; {why}")
    return together


def _attempt(
    workflow: CustomWorkflow, tasks: Sequence[Mapping[str, Any]], say: Say, *, slots: int, limit_s: float
) -> list[Episode]:
    sampler = PolicySampler(SayingEngine(say), MessageFormat(), context=CONTEXT)
    rollouts = WorkflowRollouts(
        run="check",
        workflow=_Shared(workflow),
        sampler=sampler,
        sampling=Sampling(max_tokens=CONTEXT // 4, stop_tokens=sampler.template.stop_tokens),
        rewards=Rewards([Part(label="nothing", weight=1.0, reward=_Nothing())]),
        deadline_s=limit_s,
    )
    runner = LanguageRunner({}, default=rollouts, sampler=sampler, slots=slots)
    seats = (Seat(policy=POLICY, learns=True),)
    given = [
        Task(id=TaskId(number), game="tasks:check", seed=number, seats=seats, inputs=copy.deepcopy(dict(inputs)))
        for number, inputs in enumerate(tasks)
    ]
    try:
        runner.submit(given)
        while not runner.is_idle:
            runner.step()
        episodes = runner.harvest().episodes
    finally:
        runner.close()
    for task, inputs in zip(given, tasks, strict=True):
        require(task.inputs == dict(inputs), "a workflow leaves the task's fields alone")
    return sorted(episodes, key=lambda episode: episode.task.id)


class SayingEngine:
    """A policy that says what a function of the conversation says; its tokens are bytes."""

    is_repeatable = True

    def __init__(self, say: Say) -> None:
        self.counters = EngineCounters()
        self._say = say
        self._format = MessageFormat()

    async def generate(self, request: Request) -> Completion:
        """Say it, as far as it fits."""
        await asyncio.sleep(0)
        whole = self._format.encode_reply(self._say(self._format.messages(request.prompt)))
        tokens = np.array(whole[: request.sampling.max_tokens], np.int32)
        return Completion(
            tokens=tokens,
            logps=np.full(len(tokens), -1.0, np.float32),
            values=np.zeros(len(tokens), np.float32),
            policy=request.policy,
            finish="stop" if len(tokens) == len(whole) else "length",
        )

    def end_session(self, session: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """There is nothing to give back."""


class _Shared:
    """A workflow that several runners use, one after the other: none of them closes it."""

    def __init__(self, workflow: CustomWorkflow) -> None:
        self.many_chats = workflow.many_chats
        self.run = workflow.run

    async def close(self) -> None:
        """Not yet."""


class _Nothing(Instant):
    async def mark(self, attempt: Attempt) -> Mark:
        return Mark(value=0.0)


def _shown(episode: Episode) -> str:
    return f"task {episode.task.id} ({str(episode.task.inputs)[:60]})"
