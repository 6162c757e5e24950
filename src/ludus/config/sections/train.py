"""How a policy learns: `train`, as presets over parts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ludus.config.base import Model

Aggregation = Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant_norm"]
Source = Literal["on_policy", "expert", "pairs", "any"]
GROUP_KINDS = ("group", "rloo", "opmd", "asymre")
"""Advantages that compare the episodes of one group."""


class AdvantageConfig(Model):
    """How rewards become advantages. Only on-policy experience has one: expert rows and pairs get 0."""

    kind: Literal["gae", "monte_carlo", "vtrace", "group", "rloo", "opmd", "asymre", "remax", "distill", "custom"] = (
        "gae"
    )
    """`group`: an episode's reward less the mean of its group (GRPO). `rloo`: less the mean of the others of its group.
    `opmd`: less the `baseline` of its group. `asymre`: less the mean of its group and `baseline_shift`. A group is the
    episodes that `explore.group` plays from the same beginning; alone in it, an episode gets 0. `remax`: the return
    less the reward of the greedy answer. `distill`: how much likelier a token is to the teacher than to the policy.
    `custom`: as a plugin computes it, by `name`, with `options`."""
    name: str | None = None
    """Kind `custom`: what the plugin registered."""
    options: dict[str, float | bool | str | None] = Field(default={})
    """Kind `custom`: keyword arguments of the plugin's function."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount."""
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
    baseline: Literal["mean", "logavgexp"] = "mean"
    """Kind `opmd`: the mean of the group's rewards R, or `tau (log sum exp(R / tau) - log k)`."""
    tau: float = Field(default=1.0, gt=0)
    """Kind `opmd` with `logavgexp`: small is near the best reward of the group, large near the mean."""
    baseline_shift: float = -0.1
    """Kind `asymre`: added to the group's mean; below 0, good answers count for more than bad ones."""
    perspective: Literal["seat", "alternate"] | None = None
    """`seat`: each seat's own decisions form its chain (any game). `alternate`: the next position's value counts
    with its sign turned when the other side is to move (two players, zero-sum; fused topology; where something is
    hidden from a seat, its estimate is not the other's, and credit is biased). Default: `alternate` where it can be
    had, else `seat`; for an OpenSpiel game in which something is hidden, `seat`."""
    normalise_batch: bool = False
    """Centre and scale advantages over all elements of a batch, before it is cut into minibatches (REINFORCE++)."""
    normalise: bool = True
    """Centre and scale advantages within each minibatch."""


class MuConfig(Model):
    """Mu, the share of the terms that imitate in a mixed objective, over the run (as in CHORD).

    It rises from 0 to `peak` over the warm-up, falls along half a cosine to `valley`, and stays there. Without warm-up
    and decay it is `valley` throughout. Steps as other projects count them are a share of the run when divided by the
    optimizer steps of the whole run.
    """

    peak: float = Field(default=0.1, ge=0, le=1)
    """Its highest value."""
    valley: float | None = Field(default=None, ge=0, le=1)
    """Default: `peak`."""
    warmup_fraction: float = Field(default=0.0, ge=0, le=1)
    """Share of the run over which mu rises."""
    decay_fraction: float = Field(default=0.0, ge=0, le=1)
    """Share of the run over which it then falls."""


class KlRewardConfig(Model):
    """Pay for every token by how far the policy that sampled it is from the base model, before advantages are made."""

    estimator: Literal["k1", "k2", "k3"] = "k1"
    """Of the KL at a token."""
    weight: float = Field(default=0.01, gt=0)
    """Subtracted from the token's reward: this times the estimate."""


class TermConfig(Model):
    """One term of the objective: `weight` times `loss` on the experience from `source`."""

    loss: str
    """Name in the loss registry, such as `ppo_clip`, `reinforce`, `sft`, `value`, `entropy`, `kl`."""
    source: Source = "on_policy"
    """Which rows of a batch the term sees: what the policy did itself, what experts did, preference pairs, or all.
    Its mean is over these rows alone, however many others are in the minibatch."""
    weight: float = 1.0
    """Of the term in the sum."""
    weight_end: float | None = None
    """When given, the weight moves linearly from `weight` to this over the run."""
    share: Literal["mu", "rest"] | None = None
    """Multiply the weight by `train.algorithm.mu`, or by what it leaves of 1."""
    options: dict[str, float | bool | str | None] = Field(default={})
    """The loss function's keyword arguments, such as `clip_low`."""


class AlgorithmConfig(Model):
    """A named preset; parts given here replace the preset's."""

    preset: str = "ppo"
    """docs/algorithms has a page for each: its formula, its defaults, and where others differ. Plugins may add some."""
    advantage: AdvantageConfig | None = None
    objective: tuple[TermConfig, ...] | None = Field(default=None, strict=False)
    mu: MuConfig | None = None
    """Weight of the terms with `share: mu`; those with `share: rest` have 1 less that."""
    kl_reward: KlRewardConfig | None = None
    """Language models: a penalty in the reward for leaving the base model. Default: none."""
    kl_stop: float | None = Field(default=None, gt=0)
    """Stop the epochs of an update when the approximate KL to the behaviour policy exceeds this."""


class DecayRuleConfig(Model):
    """Whether weights of some names decay."""

    names: str = Field(min_length=1, examples=["*.bias", "body.layers.*norm*"])
    """A glob on the names of weights: `*` is any text, `?` any character."""
    decays: bool = False
    """Whether they do."""


class PieceConfig(Model):
    """A piece of the learning rate's way: from its own rate to that of the piece after it."""

    learning_rate: float = Field(gt=0)
    """At its beginning."""
    steps: int | None = Field(default=None, gt=0)
    """How many optimizer steps it lasts; or give `share`."""
    share: float | None = Field(default=None, gt=0, le=1)
    """Which share of the run it lasts."""
    shape: Literal["constant", "linear", "cosine"] = "constant"
    """How it gets to the next piece's rate; `constant`: at once, at its end. After the last piece its rate stays."""


class SwaConfig(Model):
    """Stochastic weight averaging: a running mean of the weights after each update."""

    every: int = Field(default=1, gt=0)
    """Updates between two weights that count."""
    most: int = Field(default=10, gt=0)
    """How many the mean is over: first a plain mean, and from this many on an exponential one with weight 1 / most."""
    publish: bool = True
    """Publish and export the mean instead of the newest weights; training goes on with the newest."""


class OptimizerConfig(Model):
    """Optimizer and learning-rate schedule."""

    kind: Literal["adam", "adamw", "nadamw", "sgd", "rmsprop"] = "adam"
    """The optimizer; `adamw` and `nadamw` (with Nesterov momentum) decay weights apart from the gradient."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """When not given: 1e-3 for networks, 1e-4 for the adapters of a language model, 1e-5 for all of its parameters
    (`policy.model.lora: null`)."""
    critic_learning_rate: float | None = Field(default=None, gt=0)
    """Language models: the critic's own, on the same schedule. Default: that of the others."""
    schedule: str = "linear"
    """How the rate falls over the run, after the warm-up: `constant`, `linear`, `cosine`, or a plugin's."""
    final_fraction: float = Field(default=0.02, ge=0, le=1)
    """Share of the learning rate left at the end of the schedule."""
    warmup_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Share of the run over which the rate rises from 0."""
    eps: float = Field(default=1e-5, gt=0)
    """Added to the denominator of Adam and RMSprop."""
    weight_decay: float = Field(default=0.0, ge=0)
    """`adamw`, `nadamw`: decoupled from the gradient. `adam`, `rmsprop`, `sgd`: part of the gradient (L2), as in
    PyTorch."""
    decay_rules: tuple[DecayRuleConfig, ...] = Field(default=(), strict=False)
    """Networks: which weights decay; the first rule whose glob fits a name counts, and without one a weight decays."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Networks: decay of Adam's mean of gradients."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Networks: decay of Adam's mean of squared gradients."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """Networks: momentum of `sgd`."""
    nesterov: bool = False
    """Networks: Nesterov's variant of it."""
    pieces: tuple[PieceConfig, ...] = Field(default=(), strict=False)
    """Networks: the learning rate piece by piece, instead of `learning_rate` and `schedule`."""
    max_grad_norm: float | None = Field(default=0.5, gt=0)
    """Clip the gradient to this norm; null: never."""


class EarlyStoppingConfig(Model):
    """Early stopping, as soon as one of these holds. Games against itself do not count."""

    score: float | None = Field(default=None, gt=0, le=1)
    """Its share of points against its opponents over the last `updates` updates. For zero-sum games."""
    plateau: int | None = Field(default=None, gt=0)
    """Updates in a row without a new highest mean return over the last `updates` updates."""
    updates: int = Field(default=10, gt=0, le=10_000)
    """Updates over which score and return are averaged."""


class TrainConfig(Model):
    """Training: steps, batches, algorithm and optimizer."""

    steps: int | None = Field(default=None, gt=0, le=10**15)
    """Steps after which the run is done: decisions of all seats; for a language model tokens that it is trained on:
    those that it sampled and, with `buffer.expert` (SFT, MIX, CHORD), those of experts. Where several of `steps`,
    `updates` and `hours` are given, the first to be reached ends the run. Default: 10,000,000 where none is given."""
    updates: int | None = Field(default=None, gt=0, le=10**12)
    """Updates (batches trained on) after which the run is done."""
    hours: float | None = Field(default=None, gt=0, le=10**6)
    """Hours of training after which the run is done, over all starts of the run; pauses, warm starts and the final
    evaluation do not count. `ludus run --for 2h` sets it. The learning rate falls with the time, so such a run is not
    repeatable bit for bit."""
    batch_steps: int | None = Field(default=None, gt=0)
    """Fused topology: steps per update. Default: 16 per game in flight."""
    batch_episodes: int | None = Field(default=None, gt=0)
    """Split topology: episodes per update. Default: the games in flight."""
    minibatch: int = Field(default=256, gt=0)
    """Steps per optimizer step; sequences, where the policy is a language model."""
    epochs: int = Field(default=4, gt=0, le=1000)
    """Passes over each batch. When not given: 4 with the preset ppo, 10 with ippo and mappo, 1 with the others."""
    accumulate: int = Field(default=1, gt=0)
    """Split each minibatch into this many parts and add up their gradients."""
    aggregation: Aggregation = "token_mean"
    """Language models: how the loss of a minibatch is averaged over its tokens. Every token alike; every sequence alike
    by the mean of its tokens, or by their sum; or by their sum over a constant (`constant_norm`, as in Dr. GRPO).
    When not given: as the preset has it."""
    aggregation_length: int | None = Field(default=None, gt=0)
    """`constant_norm`: that constant, such as the tokens a sequence may have at most. When not given:
    `explore.sampling.max_tokens`."""
    tokens_per_micro_batch: int | None = Field(default=None, gt=0)
    """Language models: tokens computed at once; a minibatch is cut into parts of this size and their gradients add up.
    Changes memory and speed, not the result. A longer sequence is a part of its own. Default: 2,048 on a CPU, 16,384 on
    a GPU."""
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$", examples=["cuda"])
    """Language models: where the trainer and a teacher compute: `cpu`, `cuda`, or one GPU, such as `cuda:1`. `auto`
    takes a GPU where there is one. With `cuda` and `auto` several trainers of a machine have a GPU each."""
    forward: Literal["auto", "decoder", "packed"] = "auto"
    """Language models: what computes them. `decoder`: ludus itself, which computes a shared prompt once; for the
    families Llama, Qwen2, Qwen3 and Mistral. `packed`: any causal model of transformers, on rows packed without
    padding. `auto`: the decoder on a CPU where it can, packed otherwise."""
    activation_checkpointing: bool = False
    """Language models: keep the activations between layers only, and recompute the others for the gradient."""
    shards: int = Field(default=1, gt=0, le=64)
    """Fused topology: parts of the games that are played and learnt from side by side, each on a core or a device of
    its own. Each takes an equal share of the games and of every minibatch, and their weights are averaged after every
    epoch (local SGD). Their learning rate is √shards times the optimizer's (sgd: the same). The result depends on the
    number of shards, not on the number of cores."""
    trainers: int = Field(default=1, gt=0, le=64)
    """Processes that share each minibatch and add up their gradients (split topology); for chess networks, devices of
    one process: GPUs, or cores of the CPU. The update is that of one, to rounding."""
    sharding: Literal["fsdp"] | None = None
    """Language models, with several trainers. `fsdp`: each of them holds a shard of the weights (of a frozen base too),
    of the gradient and of the optimizer, and gathers one layer at a time (FSDP2). Default: each holds everything."""
    offload_optimizer: bool = False
    """With `sharding`: keep the optimizer in the machine's memory, and bring it to the GPU for each step."""
    value_normalisation: bool | None = None
    """Let the critic learn returns that are normalised by the running mean and variance of its targets; advantages are
    in the game's own units. Default: true with the presets ippo and mappo, false with the others."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    swa: SwaConfig | None = None
    """Networks: average weights over updates. Default: no."""
    max_staleness: int = Field(default=2, ge=0)
    """Asynchronous schedule: versions that experience may be behind when it is trained on."""
    stop: EarlyStoppingConfig = EarlyStoppingConfig()
    """Early stopping. Default: never."""
    max_skipped: int = Field(default=10, gt=0)
    """Optimizer steps in a row that may be skipped for a loss or gradient that is not finite, before the run stops."""
