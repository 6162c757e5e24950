"""How a policy learns: `train`, as presets over parts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ludus.config.base import Model

Aggregation = Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant_norm"]


class AdvantageConfig(Model):
    """How rewards become advantages."""

    kind: Literal["gae", "monte_carlo", "vtrace", "group", "rloo"] = "gae"
    """`group`: an episode's reward less the mean of its group (GRPO). `rloo`: less the mean of the others of its group.
    A group is the episodes that `explore.group` plays from the same beginning; alone in it, an episode gets 0."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    lam: float = Field(default=0.95, ge=0, le=1)
    """GAE and V-trace: 0 trusts the value estimate, 1 the sampled return."""
    rho_clip: float = Field(default=1.0, gt=0)
    """V-trace: cap of the importance weight in the temporal difference."""
    c_clip: float = Field(default=1.0, gt=0)
    """V-trace: cap of the importance weight in the trace."""
    scale: Literal["group", "batch", "none"] = "group"
    """Kind `group`: divide by the standard deviation of the group's rewards, of the whole batch's, or by nothing."""
    scale_eps: float = Field(default=1e-4, gt=0)
    """Added to that standard deviation (TRL has 1e-4, verl 1e-6)."""
    perspective: Literal["seat", "alternate"] | None = None
    """`seat`: each seat's own decisions form its chain (any game). `alternate`: the next position's value counts
    with its sign turned when the other side is to move (two players, zero-sum; fused topology). Default: `alternate`
    where it can be had, else `seat`."""
    normalise: bool = True
    """Centre and scale advantages within each minibatch."""


class TermConfig(Model):
    """One term of the objective: `weight` times `loss` on the experience from `source`."""

    loss: str
    """Name in the loss registry: `ppo_clip`, `reinforce`, `sft`, `value`, `entropy`, `kl`."""
    source: Literal["usual"] = "usual"
    weight: float = 1.0
    weight_end: float | None = None
    """When given, the weight moves linearly from `weight` to this over the run."""
    options: dict[str, float | bool | str | None] = Field(default={})
    """The loss function's keyword arguments, such as `clip_low`."""


class AlgorithmConfig(Model):
    """A named preset; parts given here replace the preset's."""

    preset: Literal["ppo", "a2c", "reinforce", "grpo", "sft"] = "ppo"
    advantage: AdvantageConfig | None = None
    objective: tuple[TermConfig, ...] | None = Field(default=None, strict=False)
    kl_stop: float | None = Field(default=None, gt=0)
    """Stop the epochs of an update when the approximate KL to the behaviour policy exceeds this."""


class OptimizerConfig(Model):
    """Optimizer and learning-rate schedule."""

    kind: Literal["adam", "adamw", "sgd", "rmsprop"] = "adam"
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    """How the rate falls over `train.steps`, after the warm-up."""
    final_fraction: float = Field(default=0.02, ge=0, le=1)
    """Share of the learning rate left at the end of the schedule."""
    warmup_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Share of the run over which the rate rises from 0."""
    eps: float = Field(default=1e-5, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float | None = Field(default=0.5, gt=0)


class TrainConfig(Model):
    """How much is trained, on what, and by which algorithm."""

    steps: int = Field(default=10_000_000, gt=0, le=10**15)
    """Environment steps (decisions of all seats) after which the run is done."""
    batch_steps: int | None = Field(default=None, gt=0)
    """Fused topology: steps per update. Default: 16 per game in flight."""
    batch_episodes: int | None = Field(default=None, gt=0)
    """Split topology: episodes per update. Default: the games in flight."""
    minibatch: int = Field(default=256, gt=0)
    """Steps per optimizer step; sequences, where the policy is a language model."""
    epochs: int = Field(default=4, gt=0, le=1000)
    """Passes over each batch. When not given: 4 with the preset ppo, 1 with the others."""
    accumulate: int = Field(default=1, gt=0)
    """Split each minibatch into this many parts and add up their gradients."""
    aggregation: Aggregation = "token_mean"
    """Language models: how the loss of a minibatch is averaged over its tokens. Every token alike; every sequence alike
    by the mean of its tokens, or by their sum; or by their sum over a constant (`constant_norm`, as in Dr. GRPO)."""
    aggregation_length: int | None = Field(default=None, gt=0)
    """`constant_norm`: that constant, such as the tokens a sequence may have at most."""
    tokens_per_micro_batch: int | None = Field(default=None, gt=0)
    """Language models: tokens computed at once; a minibatch is cut into parts of this size and their gradients add up.
    Changes memory and speed, not the result. A longer sequence is a part of its own. Default: 2,048 on a CPU, 16,384 on
    a GPU."""
    activation_checkpointing: bool = False
    """Language models: keep only what goes in between layers, and compute the rest again for the gradient."""
    trainers: int = Field(default=1, gt=0, le=64)
    """Language models: processes that share each minibatch and add up their gradients."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    max_staleness: int = Field(default=2, ge=0)
    """Asynchronous schedule: versions that experience may be behind when it is trained on."""
    max_skipped: int = Field(default=10, gt=0)
    """Optimizer steps in a row that may be skipped for a loss or gradient that is not finite, before the run stops."""
