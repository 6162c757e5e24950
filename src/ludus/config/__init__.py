"""YAML to strict typed config. An error names file, line, key path, what was expected and the nearest key.

A config is data: names in it are looked up in registries, never imported. The models are in `play`, `flow`, `learn`,
`judge` and `run`; `load` reads them, `derive` fills in what follows, `describe` says it in words.
"""

from ludus.config.cycle import CycleConfig, RunFeedConfig
from ludus.config.demo import demo_config, demo_text, load_or_demo
from ludus.config.derive import resolve, resolve_stages
from ludus.config.describe import describe, updates_in_run
from ludus.config.dump import dump_config
from ludus.config.flow import (
    BufferConfig,
    CustomTransformConfig,
    ExperienceConfig,
    FormatRewardConfig,
    InvalidMoveConfig,
    NormaliseByGameConfig,
    NormaliseConfig,
    RoleAdvantageConfig,
)
from ludus.config.judge import EvaluateConfig, LeagueConfig, OpponentConfig, TrueSkillConfig
from ludus.config.learn import AdvantageConfig, AlgorithmConfig, OptimizerConfig, TermConfig, TrainConfig
from ludus.config.load import build_config, load_config, parse_config, parse_resolved
from ludus.config.loss_options import LOSS_OPTIONS, LossOption
from ludus.config.play import ExploreConfig, GameChoice, MlpConfig, NetworkConfig, PolicyConfig, ResNetConfig
from ludus.config.presets import ALGORITHMS, Preset
from ludus.config.run import (
    CheckpointConfig,
    Mode,
    RecordConfig,
    RunConfig,
    RuntimeConfig,
    Schedule,
    Topology,
)
from ludus.config.schema import json_schema
from ludus.config.stage import StageConfig
from ludus.config.tracking import TelemetryConfig, WandbConfig

__all__ = [
    "ALGORITHMS",
    "LOSS_OPTIONS",
    "AdvantageConfig",
    "AlgorithmConfig",
    "BufferConfig",
    "CheckpointConfig",
    "CustomTransformConfig",
    "CycleConfig",
    "EvaluateConfig",
    "ExperienceConfig",
    "ExploreConfig",
    "FormatRewardConfig",
    "GameChoice",
    "InvalidMoveConfig",
    "LeagueConfig",
    "LossOption",
    "MlpConfig",
    "Mode",
    "NetworkConfig",
    "NormaliseByGameConfig",
    "NormaliseConfig",
    "OpponentConfig",
    "OptimizerConfig",
    "PolicyConfig",
    "Preset",
    "RecordConfig",
    "ResNetConfig",
    "RoleAdvantageConfig",
    "RunConfig",
    "RunFeedConfig",
    "RuntimeConfig",
    "Schedule",
    "StageConfig",
    "TelemetryConfig",
    "TermConfig",
    "Topology",
    "TrainConfig",
    "TrueSkillConfig",
    "WandbConfig",
    "build_config",
    "demo_config",
    "demo_text",
    "describe",
    "dump_config",
    "json_schema",
    "load_config",
    "load_or_demo",
    "parse_config",
    "parse_resolved",
    "resolve",
    "resolve_stages",
    "updates_in_run",
]
