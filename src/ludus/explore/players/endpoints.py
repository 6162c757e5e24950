"""The endpoints of a run: the players behind them, the judge, and what they have cost.

Invariants: an engine is made when its endpoint is first needed, so whoever plays without it needs no key; one endpoint
has one engine, whether it plays, judges or both; each explorer spends no more than its share of `max_cost`. A judge's
score is added to the rewards of a seat's replies; the game's result stays the game's.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping

from ludus.config import EndpointConfig, ExploreConfig, PromptConfig, SamplingConfig
from ludus.errors import ConfigError
from ludus.explore.players.fixed import PLAYERS
from ludus.explore.prompts import Speaker, find_prompt
from ludus.explore.runners.text_episode import TextEpisode
from ludus.inference.addresses import check_url, read_key
from ludus.inference.judge import Judge
from ludus.inference.openai.engine import OpenAIEngine
from ludus.inference.protocol import Sampling
from ludus.lm.extraction import check_extraction
from ludus.records import derive_seed

COUNTED = ("requests", "failed", "retries", "prompt_tokens", "sampled_tokens", "cost")
"""What is told of an engine's counters."""
VERDICT_TOKENS = 512
"""Of a judge's answer, where the config does not say."""

Counts = dict[str, float]
"""By name of the metric, without its room: `endpoints/gpt/cost`, `judge/verdicts`."""


class Endpoints:
    """Players by name, and the judge. Belongs to one event loop."""

    def __init__(self, explore: ExploreConfig, *, spent: Mapping[str, float] | None = None) -> None:
        """`spent` is what this explorer's earlier lives have cost, by endpoint."""
        self._explore = explore
        self._spent = dict(spent or {})
        self._engines: dict[str, OpenAIEngine] = {}
        self._judged: defaultdict[str, float] = defaultdict(float)
        self._told: Counts = {f"endpoints/{name}/cost": cost for name, cost in self._spent.items()}

    def speaker(self, name: str, prompt: PromptConfig, sampling: SamplingConfig) -> Speaker | None:
        """Who speaks for a player, as the game has it where its config does not say; None when it is no endpoint."""
        endpoint = self._explore.endpoints.get(name)
        if endpoint is None:
            return None
        engine = self.engine(name)
        return Speaker(
            sample=engine.generate,
            chat=engine.format,
            template=find_prompt(endpoint.prompt or prompt.template),
            action=endpoint.action or prompt.action,
            sampling=Sampling(
                max_tokens=endpoint.max_tokens or sampling.max_tokens,
                temperature=sampling.temperature if endpoint.temperature is None else endpoint.temperature,
                stop_tokens=engine.format.stop_tokens,
            ),
            is_endpoint=True,
        )

    async def judge(self, played: TextEpisode, *, ends: float) -> None:
        """Have the judge, if the run has one, score what each learning seat said in an episode that ended well.

        Args:
            ends: when the episode's time is up, by `time.monotonic`.

        Raises:
            RewardError, PolicyError, TimeoutExceeded: there is no verdict, which costs the episode.
        """
        config, task = self._explore.judge, played.task
        if config is None:
            return
        for seat, conversation in played.learners():
            engine = self.engine(config.endpoint)
            judge = Judge(engine, rubric=config.rubric, lowest=config.lowest, highest=config.highest)
            verdict = await judge.score(
                conversation.transcript(),
                seed=derive_seed(task.seed, "judge", task.attempt, seat),
                deadline_s=max(ends - time.monotonic(), 0.0),
                max_tokens=self._explore.endpoints[config.endpoint].max_tokens or VERDICT_TOKENS,
            )
            self._judged["judge/verdicts"] += 1
            self._judged["judge/score_sum"] += verdict.score
            conversation.add_bonus(config.weight * verdict.score)

    def take_counts(self) -> Counts:
        """What has been done since the last call."""
        counts = {
            f"endpoints/{name}/{what}": float(getattr(engine.counters, what))
            for name, engine in self._engines.items()
            for what in COUNTED
        }
        told, self._told = self._told, {**self._told, **counts, **self._judged}
        return {name: value - told.get(name, 0) for name, value in self._told.items() if value != told.get(name, 0)}

    async def close(self) -> None:
        """Let all connections go. Requests in flight fail."""
        for engine in self._engines.values():
            await engine.close()

    def engine(self, name: str) -> OpenAIEngine:
        """The engine of an endpoint; it is closed with the others.

        Raises:
            ConfigError: there is no such endpoint, or its key is missing.
        """
        if name not in self._explore.endpoints:
            raise ConfigError(f"there is no endpoint {name!r}; name it under explore.endpoints")
        if name not in self._engines:
            engine = OpenAIEngine(self._explore.endpoints[name], policy=name, shares=self._explore.most_workers)
            engine.counters.cost = self._spent.get(name, 0.0)
            self._engines[name] = engine
        return self._engines[name]


def check_endpoint(name: str, endpoint: EndpointConfig) -> None:
    """Check what a config alone cannot tell: the key is there, and what is named exists. Nobody is called.

    Raises:
        ConfigError: with the key path of the endpoint.
    """
    try:
        read_key(check_url(endpoint.url), endpoint.key_variable)
        if endpoint.prompt is not None:
            find_prompt(endpoint.prompt)
        if endpoint.action is not None:
            check_extraction(endpoint.action)
        if name in PLAYERS:
            raise ConfigError("a plugin has registered a player of this name; write another, such as gpt")
    except ConfigError as error:
        raise ConfigError(*(f"explore.endpoints.{name}: {problem}" for problem in error.problems)) from error
