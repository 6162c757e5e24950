"""Makes the rewards that a config asks for.

To add one: a config in `config.sections.rewards`, a class with `mark` and `close` (`attempt.py`), a line in `_make`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ludus.config import RewardConfig, label_of
from ludus.config.sections.rewards import (
    CodeRewardConfig,
    CustomRewardConfig,
    JudgeRewardConfig,
    LengthRewardConfig,
    MathVerifyRewardConfig,
    ModelRewardConfig,
)
from ludus.errors import ConfigError
from ludus.extras import LANGUAGE_MODELS, need_packages
from ludus.rewards.attempt import Reward
from ludus.rewards.custom import CustomReward, RewardProcesses, check_part, name_of
from ludus.rewards.responses import BY_RESPONSE, LengthReward
from ludus.rewards.rewards import Part, Rewards
from ludus.runtime import NodeFiles
from ludus.sandbox.execution import find_isolation

if TYPE_CHECKING:
    from ludus.inference.openai.engine import OpenAIEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What rewards need besides their configs."""

    engine: Callable[[str], OpenAIEngine] | None = None
    """The engine of an endpoint by its name in `explore.endpoints`; it is not closed here."""
    count_tokens: Callable[[str], int] | None = None
    """For responses of which nobody says how many tokens they have."""
    files: NodeFiles = field(default=NodeFiles(None))
    """What brings models to this machine."""
    plugins: Sequence[str] = field(default=())
    """The files from which custom rewards come; they are loaded already, here."""
    logs: Path | None = None
    """Folder for what custom rewards print. Default: a temporary one."""


def make_rewards(configs: Sequence[RewardConfig], surroundings: Surroundings | None = None) -> Rewards:
    """Make the rewards of a run.

    Raises:
        ConfigError: one of them cannot be made; the message begins with its label.
    """
    around = surroundings or Surroundings()
    custom = [config for config in configs if isinstance(config, CustomRewardConfig | MathVerifyRewardConfig)]
    processes = None
    if custom:
        processes = RewardProcesses(
            max(config.processes for config in custom),
            plugins=around.plugins,
            rewards=[name_of(config) for config in custom],
            logs=around.logs,
        )
    parts: list[Part] = []
    try:
        for config in configs:
            parts.append(Part(label=label_of(config), weight=config.weight, reward=_make(config, around, processes)))
    except ConfigError as error:
        if processes is not None:
            processes.close()
        raise ConfigError(*(f"rewards.{label_of(config)}: {problem}" for problem in error.problems)) from error
    return Rewards(parts, close=None if processes is None else processes.close)


def check_rewards(configs: Sequence[RewardConfig]) -> None:
    """Check what a config alone cannot tell: what is named exists. No model is loaded and nothing is started.

    Raises as `make_rewards` does.
    """
    for config in configs:
        try:
            if isinstance(config, CustomRewardConfig | MathVerifyRewardConfig):
                check_part(config)
            elif isinstance(config, CodeRewardConfig):
                find_isolation()
            elif isinstance(config, ModelRewardConfig):
                need_packages("a reward model", *LANGUAGE_MODELS)
                from ludus.rewards.reward_model import check_reward_model

                check_reward_model(config)
            elif not isinstance(config, JudgeRewardConfig):
                _make(config, Surroundings(), None)
        except ConfigError as error:
            raise ConfigError(*(f"rewards.{label_of(config)}: {problem}" for problem in error.problems)) from error


def _make(config: RewardConfig, around: Surroundings, processes: RewardProcesses | None) -> Reward:
    if config.kind in BY_RESPONSE:
        return BY_RESPONSE[config.kind](config)
    match config:
        case LengthRewardConfig():
            return LengthReward(config, around.count_tokens)
        case CodeRewardConfig():
            from ludus.rewards.code import CodeReward

            return CodeReward(config)
        case JudgeRewardConfig():
            from ludus.rewards.judge import JudgeReward

            if around.engine is None:
                raise ConfigError(f"there is no endpoint {config.endpoint!r}; name it under explore.endpoints")
            return JudgeReward(config, around.engine(config.endpoint))
        case ModelRewardConfig():
            from ludus.rewards.reward_model import ModelReward

            return ModelReward(config, around.files)
        case CustomRewardConfig() | MathVerifyRewardConfig() if processes is not None:
            return CustomReward(config, processes)
    raise ConfigError(f"no such kind of reward: {config.kind}")
