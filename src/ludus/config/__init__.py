"""YAML to strict typed config. An error names file, line, key path, what was expected and the nearest key.

A config is data: names in it are looked up in registries, never imported. The models are in `sections` and `run`;
`loading` reads them and fills in defaults, `describe` says in words what follows. The kinds of a reward, a workflow, an
operator, a processor, an order, an engine and a source of rows are for the room that makes them, which imports them
from their section.
"""

from ludus.config.base import Model, template_parts
from ludus.config.describe.describe_run import compute_threads, describe
from ludus.config.describe.documents import DIALECT, dump_config, json_schema
from ludus.config.loading.derive import fill_defaults, resolve, resolve_stages
from ludus.config.loading.load import (
    build_config,
    demo_config,
    demo_text,
    load_config,
    load_or_demo,
    parse_config,
    parse_resolved,
)
from ludus.config.loading.resume import SETTABLE, changed_keys, check_resumable, with_values
from ludus.config.loading.stages import join, plain_values, stage_folder, stage_path
from ludus.config.loading.validation import validate
from ludus.config.problems import Path, dotted, nearest_word, printable, report, shorten, show
from ludus.config.run import RunConfig
from ludus.config.sections.buffer import BufferConfig, ExpertConfig, LoaderConfig, PairsConfig
from ludus.config.sections.chess import ChessAttentionConfig, ChessNetworkConfig, ChessResidualConfig
from ludus.config.sections.chess_losses import CHESS_LOSS_OPTIONS
from ludus.config.sections.cycle import CycleConfig, ReleaseConfig, UploadConfig
from ludus.config.sections.evaluate import EvaluateConfig
from ludus.config.sections.experience import ExperienceConfig
from ludus.config.sections.explore import EndpointConfig, ExploreConfig, JudgeConfig
from ludus.config.sections.games import GameChoice
from ludus.config.sections.league import LeagueConfig, OpponentConfig, TrueSkillConfig
from ludus.config.sections.policy import (
    CustomNetworkConfig,
    LanguageModelConfig,
    LoraConfig,
    MemoryConfig,
    MlpConfig,
    NetworkConfig,
    PolicyConfig,
    ResNetConfig,
    TeacherConfig,
)
from ludus.config.sections.population import PayoffConfig, PopulationConfig, StopConfig
from ludus.config.sections.rewards import RewardConfig, RewardConfigs, SandboxConfig, label_of
from ludus.config.sections.runtime import RuntimeConfig
from ludus.config.sections.sampling import PromptConfig, SamplingConfig
from ludus.config.sections.tasks import TasksetConfig
from ludus.config.sections.telemetry import TelemetryConfig, WandbConfig
from ludus.config.sections.train import (
    GROUP_KINDS,
    AdvantageConfig,
    AlgorithmConfig,
    EarlyStoppingConfig,
    KlRewardConfig,
    MuConfig,
    OptimizerConfig,
    Source,
    SwaConfig,
    TermConfig,
    TrainConfig,
)
from ludus.config.sections.train_losses import LOSS_OPTIONS
from ludus.config.sections.train_presets import (
    ALGORITHMS,
    Preset,
    needs_critic,
    needs_greedy,
    register_preset,
    wanted_sources,
)
from ludus.config.sections.warm_start import WarmStartConfig
from ludus.config.sections.workflow import WorkflowConfig

__all__ = [
    "ALGORITHMS",
    "CHESS_LOSS_OPTIONS",
    "DIALECT",
    "GROUP_KINDS",
    "LOSS_OPTIONS",
    "SETTABLE",
    "AdvantageConfig",
    "AlgorithmConfig",
    "BufferConfig",
    "ChessAttentionConfig",
    "ChessNetworkConfig",
    "ChessResidualConfig",
    "CustomNetworkConfig",
    "CycleConfig",
    "EarlyStoppingConfig",
    "EndpointConfig",
    "EvaluateConfig",
    "ExperienceConfig",
    "ExpertConfig",
    "ExploreConfig",
    "GameChoice",
    "JudgeConfig",
    "KlRewardConfig",
    "LanguageModelConfig",
    "LeagueConfig",
    "LoaderConfig",
    "LoraConfig",
    "MemoryConfig",
    "MlpConfig",
    "Model",
    "MuConfig",
    "NetworkConfig",
    "OpponentConfig",
    "OptimizerConfig",
    "PairsConfig",
    "Path",
    "PayoffConfig",
    "PolicyConfig",
    "PopulationConfig",
    "Preset",
    "PromptConfig",
    "ReleaseConfig",
    "ResNetConfig",
    "RewardConfig",
    "RewardConfigs",
    "RunConfig",
    "RuntimeConfig",
    "SamplingConfig",
    "SandboxConfig",
    "Source",
    "StopConfig",
    "SwaConfig",
    "TasksetConfig",
    "TeacherConfig",
    "TelemetryConfig",
    "TermConfig",
    "TrainConfig",
    "TrueSkillConfig",
    "UploadConfig",
    "WandbConfig",
    "WarmStartConfig",
    "WorkflowConfig",
    "build_config",
    "changed_keys",
    "check_resumable",
    "compute_threads",
    "demo_config",
    "demo_text",
    "describe",
    "dotted",
    "dump_config",
    "fill_defaults",
    "join",
    "json_schema",
    "label_of",
    "load_config",
    "load_or_demo",
    "nearest_word",
    "needs_critic",
    "needs_greedy",
    "parse_config",
    "parse_resolved",
    "plain_values",
    "printable",
    "register_preset",
    "report",
    "resolve",
    "resolve_stages",
    "shorten",
    "show",
    "stage_folder",
    "stage_path",
    "template_parts",
    "validate",
    "wanted_sources",
    "with_values",
]
