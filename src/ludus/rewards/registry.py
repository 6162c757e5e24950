"""Users' own rewards by name: registered by a plugin, or an entry point of the group `ludus.rewards`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.errors import ConfigError
from ludus.plugins import Registry
from ludus.rewards.attempt import Attempt
from ludus.rewards.math_verify import NAME, mark_with_math_verify

RewardFunction = Callable[[Attempt], Any]
"""Takes an `Attempt` and returns a number or a `Mark`, or a coroutine that does."""

REWARDS: Registry[RewardFunction] = Registry("reward", "ludus.rewards", built_in={NAME: mark_with_math_verify})


def register_reward(name: str, function: RewardFunction) -> None:
    """Make a reward known under a name, for `{kind: custom, name: ...}`."""
    if not callable(function):
        raise ConfigError(f"reward {name!r}: expected a function of an attempt, got {type(function).__name__}")
    REWARDS.add(name, function)
