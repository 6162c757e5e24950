"""How episodes are played: `explore`. Endpoints and a judge; engines, prompts and sampling are in files of their own.

Invariant: no key of an endpoint ever stands in a config. It names the environment variable that has the key, and what
was written in its place by mistake is not repeated in the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from ludus.config.base import Model
from ludus.config.problems import Contradiction, Path, Unrepeatable, at, nearest_word, no_effect
from ludus.config.sections.engines import EngineConfig, LocalEngineConfig, check_engine
from ludus.config.sections.league import FIXED_PLAYER
from ludus.config.sections.sampling import PromptConfig, SamplingConfig, check_sampling

if TYPE_CHECKING:
    from ludus.config.run import RunConfig

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"


def _check_variable(name: str) -> str:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,127}", name):
        raise Unrepeatable(
            f"expected the name of an environment variable, in capitals, such as {OPENAI_KEY_VARIABLE}; "
            "a key itself has no place in a config"
        )
    return name


class EndpointConfig(Model):
    """One model at one OpenAI-compatible endpoint. Its name makes it a fixed player, or the judge."""

    model: str = Field(min_length=1, max_length=256, examples=["gpt-5-mini"])
    """What the endpoint calls it."""
    url: str = Field(default=OPENAI_URL, pattern=r"^https?://\S+$", examples=["http://127.0.0.1:8000/v1"])
    """Of an OpenAI-compatible API."""
    key_variable: Annotated[str, AfterValidator(_check_variable)] | None = None
    """Environment variable that has the key; null sends none. Default: OPENAI_API_KEY at api.openai.com, else null."""
    prompt: str | None = None
    """Name of the prompt template that it is asked with. Default: `explore.prompt.template`."""
    action: str | None = None
    """How the move is found in its replies. Default: `explore.prompt.action`."""
    max_tokens: int | None = Field(default=None, gt=0, le=131_072)
    """Tokens of one reply, as the endpoint counts them. Default: `explore.sampling.max_tokens`; 512 for a verdict."""
    temperature: float | None = Field(default=None, ge=0, le=10)
    """Of a player's replies, in evaluation too. Default: `explore.sampling.temperature`."""
    options: dict[str, Any] = Field(default={})
    """More fields of every request, such as `{reasoning_effort: low}`."""
    attempt_s: float = Field(default=120.0, gt=0)
    """Limit of one attempt; all attempts together have until the episode's deadline."""
    retries: int = Field(default=4, ge=0, le=100)
    """Attempts after one that failed in a way that may pass: no connection, too many requests, a server's error."""
    max_in_flight: int = Field(default=16, gt=0, le=10_000)
    """Requests at the same time, from each explorer."""
    prompt_price: float = Field(default=0.0, ge=0)
    """Per million tokens of prompts."""
    completion_price: float = Field(default=0.0, ge=0)
    """Per million tokens of replies."""
    max_cost: float | None = Field(default=None, gt=0)
    """Budget of the whole run, give or take requests in flight; beyond it requests fail."""

    @model_validator(mode="before")
    @classmethod
    def _send_openai_its_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "key_variable" not in value and value.get("url", OPENAI_URL) == OPENAI_URL:
            return {**value, "key_variable": OPENAI_KEY_VARIABLE}
        return value


class JudgeConfig(Model):
    """A judge of what the learning seats say: its score is part of their reward, and not of the game's result."""

    endpoint: str = Field(min_length=1, examples=["gpt"])
    """The judge: a name of `explore.endpoints`."""
    rubric: str = Field(min_length=1, max_length=20_000, examples=["Is the reasoning before the move sound?"])
    """What is asked of a conversation."""
    weight: float = Field(default=0.1, gt=0)
    """Of the score, beside the game's own reward."""
    lowest: float = 0.0
    """The worst score."""
    highest: float = 1.0
    """The best score."""


class ExploreConfig(Model):
    """How games are played."""

    games_in_flight: int = Field(default=256, gt=0, le=1_000_000)
    """Games played at the same time, over all workers."""
    workers: int = Field(default=1, gt=0, le=1024)
    """Explorer processes (split topology)."""
    max_workers: int | None = Field(default=None, gt=0, le=1024)
    """Explorer processes at most, on a Ray cluster that is joined (`runtime.address`): some are added while nodes have
    room, and go with their nodes. `games_in_flight` is over all of them. Default: `workers`, no more and no fewer."""
    deadline_s: float = Field(default=60.0, gt=0)
    """Wall-clock limit of one episode; a game that exceeds it is recorded as failed. Default: 1,800 for language
    models."""
    noise: float = Field(default=0.0, ge=0, lt=1)
    """Epsilon: share of training moves played uniformly at random, and not trained on."""
    engine: EngineConfig = LocalEngineConfig()
    """Language models: the inference engine."""
    prompt: PromptConfig = PromptConfig()
    """Language models: prompts, and what an invalid move costs."""
    sampling: SamplingConfig = SamplingConfig()
    """Language models: how replies are sampled."""
    endpoints: dict[str, EndpointConfig] = Field(default={})
    """Language models: models behind OpenAI-compatible endpoints, by the names under which they are fixed players."""
    judge: JudgeConfig | None = None
    """Language models: an LLM judge whose score is part of the reward. Default: none."""
    group: int = Field(default=1, gt=0)
    """Group size: episodes from the same start with the same line-up (GRPO's G)."""
    refill: int = Field(default=0, ge=0, le=1000)
    """Schedule sync: play further tasks for those of which nothing is left, because they failed or operators refused
    them, up to so many batches more; then train on what there is. DAPO's dynamic sampling. Default: 0, never."""
    cut_off: float = Field(default=1.0, gt=0, le=1, examples=[0.9])
    """Share of a batch that is enough, in episodes or, with `group`, in groups: the rest is given up. Schedule sync
    keeps the shortest by plies and sampled tokens, the same in every run with this seed; schedule async keeps those
    that come first and plays others instead. Default: 1, nothing is given up."""
    max_length: int | None = Field(default=None, gt=0)
    """Cut episodes after this many plies (they count as truncated). Default: the game's own bound."""

    @property
    def most_workers(self) -> int:
        """Explorers that there may be at once."""
        return max(self.workers, self.max_workers or 0)


_TAKEN = re.compile(r"^((random|first|solver|mcts|minimax)(-\d+)?|past|you|dictated)$")
"""Built-in players, and names that metrics and commands use."""
_NOT_OPTIONS = {
    "model": "write it beside options",
    "max_tokens": "write it beside options",
    "temperature": "write it beside options",
    "messages": "the game writes them",
    "stream": "replies are read whole",
    "n": "one reply is read",
    "api_key": "a key comes from the environment variable that key_variable names",
    "authorization": "a key comes from the environment variable that key_variable names",
}


def check_explore(config: RunConfig) -> Iterator[Contradiction]:
    """What is for language models, or for boards, alone; workers, endpoints and the judge."""
    explore, speaks = config.explore, config.policy.model is not None
    wanted, games = explore.workers, explore.games_in_flight
    if config.topology == "fused":
        yield from no_effect(explore, "explore", "workers", "topology: fused plays in one process")
    elif wanted > games:
        text = f"{wanted} workers share explore.games_in_flight ({games}) games; write at most {games} workers"
        yield at("explore.workers", text)
    yield from _max_workers(config)
    yield from check_engine(config)
    yield from check_sampling(config)
    if not speaks and explore.group > 1:
        yield at("explore.group", "is for language models; give policy.model, or write explore.group: 1")
    if speaks and explore.noise:
        yield at("explore.noise", "is for boards; a language model explores by explore.sampling.temperature")
    if config.topology == "fused":
        yield from no_effect(explore, "explore", "refill", "topology: fused refuses nothing that it played")
    elif config.schedule == "async":
        yield from no_effect(explore, "explore", "refill", "schedule: async waits for whole batches anyway")
    elif explore.refill and config.synchronise.offset:
        text = "plays with the version that the batch is played with, and synchronise.offset has others played ahead"
        yield at("explore.refill", f"{text}; write synchronise.offset: 0, or leave it out")
    yield from _cut_off(config)
    yield from _endpoints(config)


def _max_workers(config: RunConfig) -> Iterator[Contradiction]:
    """More explorers than `workers`, while there is room for them."""
    explore, runtime = config.explore, config.runtime
    if explore.max_workers is None:
        return
    if runtime.kind != "ray" or runtime.address is None:
        yield from no_effect(explore, "explore", "max_workers", "no nodes join but those of runtime.address")
    elif config.topology != "split" or config.population is not None:
        yield from no_effect(explore, "explore", "max_workers", "only explorers of one split run come and go")
    elif explore.max_workers < explore.workers:
        yield at("explore.max_workers", f"is less than explore.workers ({explore.workers}); write at least that")
    elif explore.max_workers > explore.games_in_flight:
        games = explore.games_in_flight
        yield at("explore.max_workers", f"so many workers share explore.games_in_flight ({games}) games; write fewer")


def _cut_off(config: RunConfig) -> Iterator[Contradiction]:
    """A share that nothing is ever given up by, or of which nobody waits for the rest."""
    explore, batch = config.explore, config.train.batch_episodes or 1
    units, what = batch // explore.group, "episodes" if explore.group == 1 else "groups"
    if config.topology != "split":
        why = f"topology: {config.topology} plays all games in step and waits for none"
        yield from no_effect(explore, "explore", "cut_off", why)
    elif config.mode not in ("both", "explore"):
        yield from no_effect(explore, "explore", "cut_off", f"mode: {config.mode} plays nothing for training")
    elif explore.cut_off < 1 and batch % explore.group:
        text = f"{batch} episodes (train.batch_episodes) are no whole number of groups (explore.group: {explore.group})"
        yield at("explore.cut_off", f"{text}, and groups are cut off whole; write a multiple there")
    elif explore.cut_off < 1 and explore.cut_off * units > units - 1:
        text = f"has no effect: {explore.cut_off:g} of {units} {what} (a batch) are all of them, rounded up"
        instead = f"write at most {(units - 1) / units:.3g}, or a larger train.batch_episodes"
        yield at(
            "explore.cut_off", f"{text}; {instead}" if units > 1 else f"{text}; write a larger train.batch_episodes"
        )


def _endpoints(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about endpoints that cannot hold."""
    explore = config.explore
    if config.policy.model is None:
        for key in ("endpoints", "judge"):
            if getattr(explore, key):
                yield at(("explore", key), "is for language models; give policy.model, or leave it out")
        return
    for name, endpoint in explore.endpoints.items():
        path: Path = ("explore", "endpoints", name)
        yield from list(_name(config, path, name)) or _use(config, path, name, endpoint)
        for key in endpoint.options:
            if why := _NOT_OPTIONS.get(key.lower()):
                yield at((*path, "options", key), f"is no option: {why}")
    yield from _judge(config)


def _name(config: RunConfig, path: Path, name: str) -> Iterator[Contradiction]:
    if not FIXED_PLAYER.match(name) or len(name) > 32:
        yield at(path, "is no player's name; write small letters, digits and _, at most 32, such as gpt")
    elif _TAKEN.match(name):
        yield at(path, f"{name} is taken; write another name, such as gpt")
    elif name == config.policy.name:
        yield at(path, f"{name} is the policy that learns (policy.name); write another name, such as gpt")


def _use(config: RunConfig, path: Path, name: str, endpoint: EndpointConfig) -> Iterator[Contradiction]:
    players = {player for opponent in config.league.opponents for player in opponent.players}
    others = {player for game in config.evaluate.held_out_games for player in game.against or ()}
    plays = name in players | others | set(config.evaluate.against)
    judge = config.explore.judge
    if not plays and (judge is None or judge.endpoint != name):
        where = "league.opponents, evaluate.against or explore.judge.endpoint"
        yield at(path, f"has no effect: it is never used; name it in {where}, or leave it out")
    elif not plays:
        for key in ("prompt", "action", "temperature"):
            if getattr(endpoint, key) is not None:
                yield at((*path, key), f"has no effect: {name} only judges; leave it out")
    if endpoint.max_cost is not None and not endpoint.prompt_price + endpoint.completion_price:
        text = "has no effect: nothing is charged; write prompt_price and completion_price, per million tokens"
        yield at((*path, "max_cost"), text)


def _judge(config: RunConfig) -> Iterator[Contradiction]:
    judge, endpoints = config.explore.judge, config.explore.endpoints
    if judge is None:
        return
    if judge.endpoint not in endpoints:
        near = nearest_word(judge.endpoint, endpoints)
        hint = f"did you mean {near}?" if near else "write it there, with its model and url"
        yield at(("explore", "judge", "endpoint"), f"explore.endpoints has no {judge.endpoint}; {hint}")
    if judge.lowest >= judge.highest:
        text = f"{judge.lowest:g} is not below explore.judge.highest ({judge.highest:g})"
        yield at(("explore", "judge", "lowest"), f"{text}; write less there")
