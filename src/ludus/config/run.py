"""The whole configuration of a run. What follows from it is in `derive.py`.

To add a key: a field with its documentation under it; a default that depends on other keys is None here and filled in
`derive.py`, where `describe.py` can show it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.sections.buffer import BufferConfig
from ludus.config.sections.checkpoint import CheckpointConfig
from ludus.config.sections.cycle import CycleConfig
from ludus.config.sections.evaluate import EvaluateConfig
from ludus.config.sections.experience import ExperienceConfig
from ludus.config.sections.explore import ExploreConfig
from ludus.config.sections.games import GameChoice
from ludus.config.sections.league import LeagueConfig
from ludus.config.sections.policy import PolicyConfig
from ludus.config.sections.population import PopulationConfig
from ludus.config.sections.record import RecordConfig
from ludus.config.sections.rewards import RewardConfigs
from ludus.config.sections.runtime import RuntimeConfig
from ludus.config.sections.sampling import SamplingConfig
from ludus.config.sections.stages import StageConfig
from ludus.config.sections.synchronise import SynchroniseConfig
from ludus.config.sections.tasks import TasksetConfig
from ludus.config.sections.telemetry import TelemetryConfig
from ludus.config.sections.train import TrainConfig
from ludus.config.sections.warm_start import WarmStartConfig
from ludus.config.sections.workflow import SingleTurnConfig, WorkflowConfig

Topology = Literal["fused", "split", "tabular"]
Schedule = Literal["sync", "async"]
Mode = Literal["both", "explore", "train", "evaluate"]


class RunConfig(Model):
    """One run. `ludus check FILE` validates it and prints what follows from it."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", examples=["connect_four"])
    """Name of the run; its directory is `runs/<name>` (`runs/<name>-evaluate` in the mode evaluate) unless --run-dir
    says otherwise."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of everything random in the run."""
    games: tuple[GameChoice, ...] = Field(default=(), strict=False)
    """What is played. Language models may have games and tasks in one run."""
    tasks: tuple[TasksetConfig, ...] = Field(default=(), strict=False)
    """Language models: what is attempted, through a workflow, for rewards; instead of games, or beside them."""
    workflow: WorkflowConfig = SingleTurnConfig()
    """How a task is attempted, where its taskset does not say."""
    rewards: RewardConfigs = ()
    """The reward of an attempt at a task, where its taskset does not say: the weighted sum of these."""
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
    """`explore` only fills the buffer; `train` only empties it, and reads `buffer.feeds`; `evaluate`
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

    def sampling_by_game(self) -> dict[str, SamplingConfig]:
        """How replies are sampled where a game or taskset says so itself, by what its tasks have as their game."""
        games = {game.key: game.sampling for game in self.games}
        sets = {taskset.game: taskset.sampling for taskset in (*self.tasks, *self.evaluate.tasks)}
        return {game: sampling for game, sampling in (games | sets).items() if sampling is not None}

    @property
    def publish_interval(self) -> int:
        """Split topology: updates between two published versions."""
        return self.synchronise.interval if self.cycle is None else self.cycle.updates

    @property
    def home(self) -> Path:
        """Where the run lives unless --run-dir says otherwise."""
        return Path("runs") / (f"{self.name}-evaluate" if self.mode == "evaluate" else self.name)
