"""Rewards that run in processes of their own, by name: users' functions (plugins, entry points of the group
`ludus.rewards`), and the package math-verify (sympy), for figures that others report with it: sympy may evaluate
9^9^9^9, and then its process is ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ludus.errors import ConfigError, RewardError
from ludus.plugins import Registry
from ludus.rewards.attempt import Attempt

NAME = "math_verify"


def mark_with_math_verify(attempt: Attempt) -> float:
    """1 if the answer in the response equals the task's, which stands in the field `options["answer"]`, else 0."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of every call without a limit of its own
    expected = str(attempt.need(attempt.options["answer"]))
    # The package's own limits are signals; ours is the end of the process.
    read = partial(parse, parsing_timeout=None)
    gold = read(expected) or read(f"${expected}$")
    if not gold:
        raise RewardError(f"the task's answer cannot be read as mathematics: {expected[:80]!r}")
    return float(verify(gold, read(attempt.response), timeout_seconds=None))


RewardFunction = Callable[[Attempt], Any]
"""Takes an `Attempt` and returns a number or a `Mark`, or a coroutine that does."""

REWARDS: Registry[RewardFunction] = Registry("reward", "ludus.rewards", built_in={NAME: mark_with_math_verify})


def register_reward(name: str, function: RewardFunction) -> None:
    """Make a reward known under a name, for `{kind: custom, name: ...}`."""
    if not callable(function):
        raise ConfigError(f"reward {name!r}: expected a function of an attempt, got {type(function).__name__}")
    REWARDS.add(name, function)
