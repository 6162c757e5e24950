"""What is played and by which network: `games`, `policy`, `explore`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.sections.endpoints import EndpointConfig, JudgeConfig


class LocalEngineConfig(Model):
    """The engine inside the explorer process, on PyTorch."""

    kind: Literal["local"] = "local"
    max_batch: int = Field(default=64, gt=0, le=4096)
    """Completions written at the same time; others wait."""
    prefill_tokens: int = Field(default=512, gt=0)
    """Prompt tokens computed in one step, at most, so that long prompts do not hold up the others."""
    reuse: bool = True
    """Keep what was computed for prompts: a turn goes on from the turn before, and what prompts share is read once."""


class VllmEngineConfig(Model):
    """A running vLLM server, driven over its OpenAI-compatible API with adapters loaded at run time."""

    kind: Literal["vllm"]
    url: str = Field(pattern=r"^https?://\S+$", examples=["http://127.0.0.1:8000/v1"])
    model: str = Field(min_length=1, examples=["base"])
    """The name under which the server serves the base model."""
    patience_s: float = Field(default=300.0, ge=0)
    """How long the server may be out of reach before the run stops. Games that it interrupts are played again."""


EngineConfig = Annotated[LocalEngineConfig | VllmEngineConfig, Field(discriminator="kind")]


class SamplingConfig(Model):
    """How a language model samples a reply."""

    max_tokens: int = Field(default=64, gt=0, le=131_072)
    """Tokens of one reply."""
    ignore_end: bool = False
    """Let every reply have `max_tokens` tokens, past the token that would end it: for measurements."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    """0: no limit."""


class PromptConfig(Model):
    """How a game and a language model talk: prompts, moves in replies, invalid moves, and what a training row is."""

    template: str = "plain"
    """Name of the prompt template: `plain`, `boxed`, `think`, or one that a plugin registered."""
    action: str = "whole"
    """How the move is found in a reply: `whole`, `boxed`, `bracket`, `last_line`, `choice`, `regex:...`."""
    invalid_moves: int = Field(default=0, ge=0)
    """Invalid moves in a row after which a seat may try again; one more and it forfeits."""
    invalid_reward: float = -1.0
    """What a seat that forfeits gets; the others share the opposite."""
    max_turns: int | None = Field(default=None, gt=0)
    """Replies of one seat in one game; a longer game is cut and counts as truncated."""
    rows: Literal["episode", "turn"] = "episode"
    """What a training sequence is: all that a seat said in a game, with the rest masked; or one reply with all that
    came before it."""


class ExploreConfig(Model):
    """How games are played."""

    games_in_flight: int = Field(default=256, gt=0, le=1_000_000)
    """Games played at the same time, over all workers."""
    workers: int = Field(default=1, gt=0, le=1024)
    """Explorer processes (split topology)."""
    deadline_s: float = Field(default=60.0, gt=0)
    """Wall-clock limit of one episode; a game that exceeds it is recorded as failed."""
    noise: float = Field(default=0.0, ge=0, lt=1)
    """Share of training moves played uniformly at random and not trained on, so that rare positions are seen."""
    engine: EngineConfig = LocalEngineConfig()
    """Language models: what writes their replies."""
    prompt: PromptConfig = PromptConfig()
    """Language models: prompts, and what an invalid move costs."""
    sampling: SamplingConfig = SamplingConfig()
    """Language models: how replies are sampled."""
    endpoints: dict[str, EndpointConfig] = Field(default={})
    """Language models: models behind OpenAI-compatible endpoints, by the names under which they are fixed players."""
    judge: JudgeConfig | None = None
    """Language models: an endpoint whose opinion of what was said is part of the reward. Default: nobody's."""
    group: int = Field(default=1, gt=0)
    """Episodes that are played from the same beginning with the same line-up, to be compared with each other."""
    max_length: int | None = Field(default=None, gt=0)
    """Cut episodes after this many plies (they count as truncated). Default: the game's own bound."""
