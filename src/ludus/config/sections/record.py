"""`record`: what is kept of the games."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, no_effect

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class RecordConfig(Model):
    """What is kept of the games for people to look at, and for how long."""

    sample_every: int | None = Field(default=None, gt=0)
    """Fused topology: updates between recorded samples. Default: with each evaluation."""
    sample_games: int = Field(default=4, ge=0)
    """Fused topology: games recorded per sample."""
    traces: int = Field(default=4, ge=0, le=1024)
    """Sequences of every update that are kept as the trainer saw them: with advantages and its own log-probabilities,
    for `ludus web`. They take an eighth of `keep_mb` at most. Fused runs and chess networks keep none."""
    keep_mb: int = Field(default=512, gt=0)
    """Disk budget for episode and experience segments that are no longer needed for training."""


def check_record(config: RunConfig) -> Iterator[Contradiction]:
    """Samples are for the topology that does not record every episode."""
    if config.topology != "split":
        yield from no_effect(config.record, "record", "traces", "only trainer processes (topology: split) write traces")
    if config.topology != "fused":
        yield from no_effect(
            config.record, "record", "sample_every sample_games", "topology: split records every episode"
        )
