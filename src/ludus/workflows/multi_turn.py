"""`multi_turn`: the policy acts in an environment, turn by turn, in one conversation.

Invariant: every reply has a reward, the environment's or that of an impossible action; a limit that ends the attempt
(turns, context) leaves what was earned until then.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import fsum

from ludus.config.sections.workflow import MultiTurnConfig
from ludus.games.move_text import listed
from ludus.games.protocol import InvalidMove
from ludus.lm.extraction import check_extraction, extract
from ludus.records import Task
from ludus.workflows.environments import EnvStep, OwnEnvironment, find_environment
from ludus.workflows.protocol import Outcome
from ludus.workflows.rollout_model import Chat, OutOfRoom, RolloutModel

MOST_THREADS = 32
"""For environments that block."""
MOST_NAMED = 64
"""Actions that are named in a message."""
REFUSAL = "That is not possible. Try again."


@dataclass(slots=True, kw_only=True)
class _Progress:
    """How far an attempt has come."""

    rewards: list[float] = field(default_factory=list)
    reply: str = ""
    invalid: int = 0
    truncated: bool = False
    last: EnvStep = field(default_factory=EnvStep)


class MultiTurn:
    """Acts in environments."""

    many_chats = False

    def __init__(self, config: MultiTurnConfig) -> None:
        """
        Raises:
            ConfigError: there is no such environment, or no such way to find an action.
        """
        check_extraction(config.action)
        self._config = config
        self._source = find_environment(config.environment)
        self._threads = ThreadPoolExecutor(MOST_THREADS, "environment") if self._source.blocks else None

    async def run(self, task: Task, model: RolloutModel) -> Outcome:
        """Act until the environment or a limit ends it."""
        environment = await OwnEnvironment.make(self._source, self._threads)
        try:
            first = await environment.reset(task.inputs, task.game_seed)
            return self._outcome(await self._act(environment, model.chat(self._config.system), first))
        finally:
            environment.close()

    async def close(self) -> None:
        """Let the threads go; one that is stuck in an environment is left behind."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _act(self, environment: OwnEnvironment, chat: Chat, observation: str) -> _Progress:
        progress, news = _Progress(), observation
        while not (progress.last.done or progress.last.truncated):
            if len(progress.rewards) >= self._config.turns:
                progress.truncated = True
                break
            actions = await environment.actions()
            try:
                progress.reply = await chat.say(self._message(news, actions))
            except OutOfRoom:
                if not progress.rewards:
                    raise
                progress.truncated = True
                break
            news = await self._turn(environment, chat, actions, progress)
        return progress

    async def _turn(
        self, environment: OwnEnvironment, chat: Chat, actions: list[str] | None, progress: _Progress
    ) -> str:
        """Do what a reply says; returns what is to be told next."""
        found = extract(self._config.action, progress.reply, actions)
        try:
            if not found.move:
                raise InvalidMove("there is no action in the reply")
            progress.last = await environment.step(found.move)
        except InvalidMove:
            chat.mark(format_ok=found.format_ok, is_invalid=True)
            progress.invalid += 1
            progress.rewards.append(self._config.invalid_reward)
            return REFUSAL
        chat.mark(format_ok=found.format_ok)
        progress.rewards.append(float(progress.last.reward))
        return progress.last.observation

    def _message(self, news: str, actions: list[str] | None) -> str:
        if not actions or not self._config.name_actions:
            return news
        return f"{news}\nActions: {listed(actions, most=MOST_NAMED)}"

    def _outcome(self, progress: _Progress) -> Outcome:
        rewards = progress.rewards
        if self._config.credit == "end":
            rewards = [0.0] * (len(rewards) - 1) + [fsum(rewards)]
        return Outcome(
            response=progress.reply,
            step_rewards=rewards,
            metrics={"turns": len(rewards), "invalid": progress.invalid, **progress.last.metrics},
            truncated=progress.truncated or progress.last.truncated,
        )
