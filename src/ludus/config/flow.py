"""From episode to batch: `experience` and `buffer`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ludus.config.base import Model


class RoleAdvantageConfig(Model):
    """Subtract a moving average of the reward per (game, seat): what this seat usually gets here."""

    kind: Literal["role_advantage"] = "role_advantage"
    decay: float = Field(default=0.95, ge=0, lt=1)
    """Weight of the old average; the baseline is read before it is updated."""


class FormatRewardConfig(Model):
    """Add to each step: `reward` if its format was right, else `penalty`."""

    kind: Literal["format"] = "format"
    reward: float = 0.0
    penalty: float = 0.0


class InvalidMoveConfig(Model):
    """Add to each step: `penalty` if the move was invalid, else `reward`."""

    kind: Literal["invalid_move"] = "invalid_move"
    reward: float = 0.0
    penalty: float = -1.0


class NormaliseConfig(Model):
    """Centre the rewards of a sampled batch; with `scale`, divide by their standard deviation too."""

    kind: Literal["normalise"] = "normalise"
    scale: bool = False


class NormaliseByGameConfig(Model):
    """As `normalise`, for each game of the batch on its own."""

    kind: Literal["normalise_by_game"] = "normalise_by_game"
    scale: bool = False


class CustomTransformConfig(Model):
    """A transform that a plugin registered."""

    kind: Literal["custom"]
    name: str
    """Name it was registered under."""
    options: dict[str, float | int | str | bool] = Field(default={})


FinalTransform = Annotated[RoleAdvantageConfig | CustomTransformConfig, Field(discriminator="kind")]
StepTransform = Annotated[FormatRewardConfig | InvalidMoveConfig | CustomTransformConfig, Field(discriminator="kind")]
SamplingTransform = Annotated[
    NormaliseConfig | NormaliseByGameConfig | CustomTransformConfig, Field(discriminator="kind")
]


class ExperienceConfig(Model):
    """Reward transforms at three stages, applied in the order given."""

    final: tuple[FinalTransform, ...] = Field(default=(), strict=False)
    """On the total reward of a finished episode."""
    step: tuple[StepTransform, ...] = Field(default=(), strict=False)
    """On the reward of each step."""
    sampling: tuple[SamplingTransform, ...] = Field(default=(), strict=False)
    """On a batch when it is sampled for training."""


class BufferConfig(Model):
    """The sliding window between explorers and trainer (split topology)."""

    capacity: int | None = Field(default=None, gt=0)
    """Sequences kept; the oldest make room. Default: 8 batches."""
    reuse: int = Field(default=1, gt=0)
    """How often a sequence may be trained on."""
    sampler: Literal["uniform", "fifo", "least_used", "prioritised"] = "fifo"
    priority_exponent: float = Field(default=0.6, ge=0, le=1)
    """`prioritised` only: 0 is uniform."""
    min_size: int | None = Field(default=None, gt=0)
    """Sequences needed before the first batch. Default: one batch."""
    samples_per_insert: float | None = Field(default=None, gt=0)
    """Sequences trained per sequence inserted, at most; explorers and trainer wait for each other to keep it.
    Default: `reuse`."""
