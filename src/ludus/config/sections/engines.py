"""Engines of language models: `explore.engine`.

Invariant: what an engine cannot do is refused here, before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, Path, at, no_effect
from ludus.config.sections.sampling import SamplingConfig

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class LocalEngineConfig(Model):
    """The engine inside the explorer process, on PyTorch."""

    kind: Literal["local"] = "local"
    max_batch: int = Field(default=64, gt=0, le=4096)
    """Sequences decoded at the same time; others wait."""
    prefill_tokens: int = Field(default=512, gt=0)
    """Chunked prefill: prompt tokens per step, at most, so that long prompts do not stall decoding."""
    reuse: bool = True
    """Prefix caching: a turn reuses the cache of the turn before, and shared prefixes are computed once."""


class VllmEngineConfig(Model):
    """vLLM servers, driven over their OpenAI-compatible API with adapters loaded at run time: one that you started
    (`url`), or some that the run starts, watches and ends (`servers`)."""

    kind: Literal["vllm"]
    url: str | None = Field(default=None, pattern=r"^https?://\S+$", examples=["http://127.0.0.1:8000/v1"])
    """Of the OpenAI API of your server, such as `http://127.0.0.1:8000/v1`. Default: the run starts `servers`."""
    model: str = Field(default="base", min_length=1)
    """The name under which the server serves the base model."""
    servers: int | None = Field(default=None, gt=0, le=256, examples=[1])
    """Servers that the run starts, on loopback; on a Ray cluster each on a node of its own where there are as many."""
    tensor_parallel: int = Field(default=1, gt=0, le=64)
    """GPUs over which each server splits the model."""
    command: tuple[str, ...] = Field(default=("vllm", "serve"), min_length=1, strict=False)
    """Program that starts a server; ludus adds the model, `--port` and what it needs of vLLM."""
    arguments: tuple[str, ...] = Field(default=(), strict=False, examples=[["--max-model-len", "8192"]])
    """Further arguments of each server."""
    update: Literal["drain", "in_flight"] = "drain"
    """Whole models: a server takes new weights when its replies are written (`drain`), or between two of their tokens
    (`in_flight`); then their tokens have several versions, and a row is as old as its oldest."""
    most_mismatch: float = Field(default=0.1, gt=0, le=100.0)
    """Nats: how far server and trainer may be apart on the probe, on average for each token, before the run stops."""
    most_in_flight: int = Field(default=1024, gt=0, le=65_536)
    """Requests of an explorer that a server has at a time, at most; fewer while it makes many of them wait."""
    start_s: float = Field(default=1800.0, gt=0)
    """Seconds that a server may take until it answers for the first time."""
    patience_s: float = Field(default=300.0, ge=0)
    """Seconds that the server may be unreachable before the run stops. Interrupted games are replayed."""


class CustomEngineConfig(Model):
    """An engine of a plugin."""

    kind: Literal["custom"]
    name: str = Field(min_length=1, examples=["my_engine"])
    """What the plugin registered."""
    options: dict[str, Any] = Field(default={})
    """Keyword arguments of what makes it."""
    patience_s: float = Field(default=0.0, ge=0)
    """How long it may be out of reach before the run stops. Games that it interrupts are played again."""


EngineConfig = Annotated[LocalEngineConfig | VllmEngineConfig | CustomEngineConfig, Field(discriminator="kind")]


def check_engine(config: RunConfig) -> Iterator[Contradiction]:
    """Servers of one's own, or those of the run."""
    engine, path = config.explore.engine, "explore.engine"
    if engine.kind != "vllm":
        return
    if engine.url is not None:
        if engine.servers is not None:
            yield at(f"{path}.servers", "the run starts none where there is a url; leave one of the two out")
        else:
            keys = "tensor_parallel command arguments start_s"
            yield from no_effect(engine, path, keys, "the server at explore.engine.url is yours; write servers instead")
    elif engine.servers is None:
        yield at(f"{path}.url", "which server? Write its url, or servers: 1 to have the run start one")
    elif config.population is not None:
        text = "are of a run of one policy; start a server for the population, and write its url"
        yield at(f"{path}.servers", text)
    if engine.servers is not None:
        yield from _bent(config)
    if config.policy.model is not None and config.policy.model.lora is not None:
        yield from no_effect(engine, path, "update", "adapters of several versions are at a server at the same time")


def _bent(config: RunConfig) -> Iterator[Contradiction]:
    """A server gives log-probabilities at its temperature only after everything that bends the distribution."""
    ours: dict[Path, SamplingConfig] = {("explore", "sampling"): config.explore.sampling}
    ours |= {("games", i, "sampling"): game.sampling for i, game in enumerate(config.games) if game.sampling}
    ours |= {("tasks", i, "sampling"): each.sampling for i, each in enumerate(config.tasks) if each.sampling}
    for path, sampling in ours.items():
        if sampling.temperature != 1 and sampling.is_bent:
            text = f"is {sampling.temperature:g}, and vLLM gives log-probabilities there only after top_p, top_k, min_p"
            yield at((*path, "temperature"), f"{text} and repetition_penalty; write 1, or leave those out")
