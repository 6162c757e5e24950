"""From episode to batch: `experience`, operators and reward transforms.

To add an operator: a model with its own `kind` here, its code in `ludus/experience/operators.py`, and a line in the
registry there (a test compares the two).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from ludus.config.base import CustomPart, Model, NameAlone, kind_alone


class RoleAdvantageConfig(Model):
    """Subtract a moving average of the reward per (game, seat): what this seat usually gets here."""

    kind: Literal["role_advantage"] = "role_advantage"
    decay: float = Field(default=0.95, ge=0, lt=1)
    """Weight of the old average; the baseline is read before it is updated."""


class FormatRewardConfig(Model):
    """Add to each step: `reward` if its format was right, else `penalty`."""

    kind: Literal["format"] = "format"
    reward: float = 0.0
    """For a reply that has the form."""
    penalty: float = 0.0
    """For one that has not: a number that is added, so below 0."""


class InvalidMoveConfig(Model):
    """Add to each step: `penalty` if the move was invalid, else `reward`."""

    kind: Literal["invalid_move"] = "invalid_move"
    reward: float = 0.0
    """For a move that the rules allow."""
    penalty: float = -1.0
    """For one that they do not: a number that is added, so below 0."""


class NormaliseConfig(Model):
    """Centre the rewards of a sampled batch; with `scale`, divide by their standard deviation too."""

    kind: Literal["normalise"] = "normalise"
    scale: bool = False
    """Also divide by the standard deviation."""


class NormaliseByGameConfig(Model):
    """As `normalise`, for each game of the batch on its own."""

    kind: Literal["normalise_by_game"] = "normalise_by_game"
    scale: bool = False
    """Also divide by the standard deviation."""


class CustomTransformConfig(CustomPart):
    """A transform that a plugin registered."""


FinalTransform = Annotated[RoleAdvantageConfig | CustomTransformConfig, Field(discriminator="kind")]
StepTransform = Annotated[FormatRewardConfig | InvalidMoveConfig | CustomTransformConfig, Field(discriminator="kind")]
SamplingTransform = Annotated[
    NormaliseConfig | NormaliseByGameConfig | CustomTransformConfig, Field(discriminator="kind")
]


# -- operators ---------------------------------------------------------------------------------------------------------


class ValidityConfig(Model):
    """Refuse sequences that are not worth learning from, whatever they were given for it."""

    kind: Literal["validity"]
    truncated: Literal["keep", "refuse"] = "refuse"
    """Sequences of episodes that were cut at a limit."""
    malformed: Literal["keep", "refuse"] = "keep"
    """Sequences with an answer in which no move or no result could be found, or that the rules did not allow."""
    min_length: int | None = Field(default=None, gt=0)
    """Tokens (on a board: moves) that the policy must have chosen."""
    max_length: int | None = Field(default=None, gt=0)
    """Tokens (on a board: moves) that the policy may have chosen."""

    @model_validator(mode="after")
    def _some_length_is_allowed(self) -> ValidityConfig:
        if self.min_length and self.max_length and self.min_length > self.max_length:
            raise ValueError(f"expected min_length ({self.min_length}) up to max_length ({self.max_length})")
        return self


class RewardRangeConfig(Model):
    """Refuse sequences whose reward is outside of a range."""

    kind: Literal["reward_range"]
    low: float | None = None
    """The least reward that is let through."""
    high: float | None = None
    """The highest."""

    @model_validator(mode="after")
    def _is_a_range(self) -> RewardRangeConfig:
        if self.low is None and self.high is None:
            raise ValueError("expected low, high or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"expected low ({self.low}) up to high ({self.high})")
        return self


class ZeroVarianceConfig(Model):
    """Refuse groups in which all got the same reward: nothing can be learnt from comparing them."""

    kind: Literal["zero_variance"]
    tolerance: float = Field(default=0.0, ge=0)
    """Rewards that are at most this far apart count as the same."""


class DeduplicateConfig(Model):
    """Of the sequences of one group that say exactly the same, keep the first."""

    kind: Literal["deduplicate"]
    keep: int = Field(default=1, gt=0)
    """How many of them are kept."""


class ShapeConfig(Model):
    """Change rewards: `scale * reward + offset`, then cut to the bounds, then compared within the group."""

    kind: Literal["shape"]
    scale: float = 1.0
    """The reward is multiplied by this."""
    offset: float = 0.0
    """Then this is added."""
    low: float | None = None
    """What is below becomes this."""
    high: float | None = None
    """What is above becomes this."""
    normalise: Literal["none", "centre", "standardise"] = "none"
    """`centre`: less the mean of the group. `standardise`: that, over the group's standard deviation (equal rewards
    become 0). A sequence without a group stays as it is."""

    @model_validator(mode="after")
    def _does_something(self) -> ShapeConfig:
        if not self.model_fields_set - {"kind"}:
            raise ValueError("expected something beside the kind, such as scale: 2.0")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"expected low ({self.low}) up to high ({self.high})")
        return self


class PassRateConfig(Model):
    """Measure the share of each group that succeeded, and refuse groups outside of a range of it."""

    kind: Literal["pass_rate"]
    success: float = 0.5
    """The least reward that counts as success."""
    low: float = Field(default=0.0, ge=0, le=1)
    """The least share of successes that a group may have."""
    high: float = Field(default=1.0, ge=0, le=1)
    """The highest."""

    @model_validator(mode="after")
    def _is_a_range(self) -> PassRateConfig:
        if self.low > self.high:
            raise ValueError(f"expected low ({self.low}) up to high ({self.high})")
        return self


class CustomOperatorConfig(CustomPart):
    """An operator that a plugin registered."""


OperatorConfig = Annotated[
    ValidityConfig
    | RewardRangeConfig
    | ZeroVarianceConfig
    | DeduplicateConfig
    | ShapeConfig
    | PassRateConfig
    | CustomOperatorConfig,
    Field(discriminator="kind"),
    BeforeValidator(kind_alone),
    NameAlone(),
]


# -- the rooms ---------------------------------------------------------------------------------------------------------


class ExperienceConfig(Model):
    """What happens to raw experience: operators, then reward transforms at three phases, each in the order given."""

    operators: tuple[OperatorConfig, ...] = Field(default=(), strict=False)
    """From raw to verified, group by group: what is refused, and how rewards are shaped. What they refuse is kept apart
    with its reason: see `ludus inspect`."""
    final: tuple[FinalTransform, ...] = Field(default=(), strict=False)
    """On the total reward of a finished episode."""
    step: tuple[StepTransform, ...] = Field(default=(), strict=False)
    """On the reward of each step."""
    sampling: tuple[SamplingTransform, ...] = Field(default=(), strict=False)
    """On a batch when it is sampled for training."""
