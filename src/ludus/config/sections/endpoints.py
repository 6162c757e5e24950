"""Models behind OpenAI-compatible endpoints, as fixed players and as a judge: `explore.endpoints`, `explore.judge`.

Invariant: no key ever stands in a config. It names the environment variable that has the key, and what was written in
its place by mistake is not repeated in the error. What cannot hold together is in `endpoint_checks.py`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from ludus.config.base import Model
from ludus.config.problems import Unrepeatable

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
    """Spend no more than this in the whole run, give or take what is in flight: then requests fail."""

    @model_validator(mode="before")
    @classmethod
    def _send_openai_its_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "key_variable" not in value and value.get("url", OPENAI_URL) == OPENAI_URL:
            return {**value, "key_variable": OPENAI_KEY_VARIABLE}
        return value


class JudgeConfig(Model):
    """A judge of what the learning seats say: its score is part of their reward, and not of the game's result."""

    endpoint: str = Field(min_length=1, examples=["gpt"])
    """Who judges: a name of `explore.endpoints`."""
    rubric: str = Field(min_length=1, max_length=20_000, examples=["Is the reasoning before the move sound?"])
    """What is asked of a conversation."""
    weight: float = Field(default=0.1, gt=0)
    """Of the score, beside the game's own reward."""
    lowest: float = 0.0
    """The worst score."""
    highest: float = 1.0
    """The best score."""
