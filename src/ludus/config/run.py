"""The whole configuration of a run. What follows from it is in `derive.py`.

To add a key: a field with its documentation under it; a default that depends on other keys is None here and filled in
`derive.py`, where `describe.py` can show it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.cycle import CycleConfig
from ludus.config.flow import BufferConfig, ExperienceConfig
from ludus.config.judge import EvaluateConfig, LeagueConfig
from ludus.config.learn import TrainConfig
from ludus.config.play import ExploreConfig, GameChoice, PolicyConfig
from ludus.config.population import PopulationConfig
from ludus.config.rewards import RewardConfigs
from ludus.config.stage import StageConfig
from ludus.config.synchronise import SynchroniseConfig
from ludus.config.tasksets import TasksetConfig
from ludus.config.tracking import TelemetryConfig
from ludus.config.workflows import SingleTurnConfig, WorkflowConfig

Topology = Literal["fused", "split", "tabular"]
Schedule = Literal["sync", "async"]
Mode = Literal["both", "explore", "train", "evaluate"]


class CheckpointConfig(Model):
    """When the state of the run is saved, and how many saves are kept."""

    every: int | None = Field(default=None, gt=0)
    """Updates between checkpoints. Default: 50 in the fused topology, `synchronise.interval` in the split one, 25
    (generations) in the tabular one. Whenever a version is published, the state is saved too."""
    keep: int = Field(default=3, ge=2)
    """Checkpoints kept; the one before the newest is the fallback when the newest is damaged."""


class RecordConfig(Model):
    """What is kept of the games for people to look at, and for how long."""

    sample_every: int | None = Field(default=None, gt=0)
    """Fused topology: updates between recorded samples. Default: with each evaluation."""
    sample_games: int = Field(default=4, ge=0)
    """Fused topology: games recorded per sample."""
    keep_mb: int = Field(default=512, gt=0)
    """Disk budget for episode and experience segments that are no longer needed for training."""


class RuntimeConfig(Model):
    """Processes and threads on this machine."""

    kind: Literal["local"] = "local"
    threads: int | None = Field(default=None, gt=0)
    """Compute threads of the process that trains. Default: 1 in the split topology; in the fused one what the other
    processes leave of the cores, at most 4."""
    max_restarts: int = Field(default=5, ge=0)
    """Restarts of a worker within ten minutes before the run fails."""
    stall_s: float = Field(default=600.0, gt=0)
    """Seconds that a trainer may take for one update before it counts as hung; an explorer's limit is
    `explore.deadline_s`."""


class WarmStartConfig(Model):
    """Supervised training of a language model on games of fixed players, before it plays itself.

    Every parameter is trained; what comes out is the model that the run's adapters stand on.
    """

    games: int = Field(default=2000, gt=0, le=10**7)
    """Games that the fixed players play; the moves of every seat are learnt from."""
    players: tuple[str, ...] = Field(default=("random",), strict=False, min_length=1)
    """Who plays, drawn for each seat of each game."""
    learn: Literal["everything", "replies"] = "everything"
    """`replies`: what the players say. `everything`: also what the game tells them, by which a model that knows nothing
    yet finds out sooner how moves and positions hang together."""
    epochs: int = Field(default=1, gt=0, le=1000)
    minibatch: int = Field(default=32, gt=0)
    """Sequences per optimizer step."""
    rate: float = Field(default=3e-3, gt=0)
    """The learning rate at its highest, after a short rise; it falls to a fiftieth."""


class RunConfig(Model):
    """One run. `ludus check FILE` validates it and prints what follows from it."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", examples=["connect_four"])
    """Name of the run; its directory is `runs/<name>` (`runs/<name>-evaluate` in the mode evaluate) unless --run-dir
    says otherwise."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    games: tuple[GameChoice, ...] = Field(default=(), strict=False)
    """What is played. A run has games, or tasks."""
    tasks: tuple[TasksetConfig, ...] = Field(default=(), strict=False)
    """Language models: what is attempted instead of games, through a workflow, for rewards."""
    workflow: WorkflowConfig = SingleTurnConfig()
    """How a task is attempted."""
    rewards: RewardConfigs = ()
    """What an attempt at a task is worth: the weighted sum of these."""
    topology: Topology | None = None
    """`fused`: explore and train in one program on one device (pgx games, and OpenSpiel games of up to 200,000
    histories). `split`: separate processes (any game).
    `tabular`: nothing is played; a `population` is computed on the whole tree of a small game.
    Default: tabular where `population` is given; else fused where it can be: one pgx game, schedule sync, synchronise
    as it is by default, no reward transforms, no fixed opponents other than random."""
    schedule: Schedule = "sync"
    """`sync`: play, then train, in turn; deterministic. `async`: both at once, bounded by `train.max_staleness`."""
    synchronise: SynchroniseConfig = SynchroniseConfig()
    """Split topology: how often explorers get new weights, and how far they play ahead."""
    mode: Mode = "both"
    """`explore` only fills the buffer; `train` only empties it, and takes in what `buffer.feeds` bring; `evaluate`
    trains nothing and measures the versions of the run that `policy.start` names."""
    policy: PolicyConfig = PolicyConfig()
    explore: ExploreConfig = ExploreConfig()
    experience: ExperienceConfig = ExperienceConfig()
    buffer: BufferConfig = BufferConfig()
    train: TrainConfig = TrainConfig()
    cycle: CycleConfig | None = None
    """Wait for new data before each round of training. Default: train whenever there is a batch."""
    warm_start: WarmStartConfig | None = None
    """Language models: learn from games of fixed players first. Default: begin with the model as it is."""
    league: LeagueConfig = LeagueConfig()
    population: PopulationConfig | None = None
    """A population that grows by best responses (PSRO) instead of one policy that learns. Default: one that learns."""
    evaluate: EvaluateConfig = EvaluateConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    record: RecordConfig = RecordConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    stages: tuple[StageConfig, ...] = Field(default=(), strict=False, max_length=64)
    """Runs that are done one after the other, each beginning with the policy of the one before it. Each has a name and
    whatever differs from the keys beside `stages`."""

    @property
    def publish_interval(self) -> int:
        """Split topology: updates between two published versions."""
        return self.synchronise.interval if self.cycle is None else self.cycle.updates

    @property
    def home(self) -> Path:
        """Where the run lives unless --run-dir says otherwise."""
        return Path("runs") / (f"{self.name}-evaluate" if self.mode == "evaluate" else self.name)
